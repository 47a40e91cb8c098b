/** Holds every reply at the same part, so that it is under way when something happens, however long that takes. */

/** Parts of each reply: some are said before, some while it happens, and the rest afterwards. */
export const PARTS = { before: 3, meanwhile: 6, all: 9 } as const;

export interface Gate {
  /** Lets replies have that many parts. */
  open(parts: number): void;
  /** Resolves when a reply may have part `index`. */
  passes(index: number): Promise<void>;
}

export function createGate(): Gate {
  let limit: number = PARTS.before;
  const waiting: (() => void)[] = [];
  return {
    open(parts) {
      limit = parts;
      for (const resume of waiting.splice(0)) resume();
    },
    async passes(index) {
      while (index >= limit) await new Promise<void>((resolve) => void waiting.push(resolve));
    },
  };
}

/** @param from the parts that were said before. */
export async function* replyParts(gate: Gate, from = 0): AsyncGenerator<string> {
  for (let index = from; index < PARTS.all; index++) {
    await gate.passes(index);
    yield WHOLE[index] as string;
  }
}

/** Long enough to be coded. */
const SENTENCE =
  'The parts of a reply are on record as they were coded, and another process has to read them. '.repeat(4);
/** A whole reply. */
export const WHOLE: readonly string[] = Array.from(
  { length: PARTS.all },
  (_, index) => `${index} ${SENTENCE}`,
);
