export class SentenceTable {
  readonly code: string;
}

export function takeSentences(
  code: string,
  parse: (code: string) => unknown,
  table: SentenceTable,
  sayFrom: string,
): string;
