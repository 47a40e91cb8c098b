/** The agreements of users and nodes of a history. */

/** Agents whose sessions are durable, and those whose sessions are not. */
export const DURABLE_AGENTS: readonly string[] = ['d0', 'd1', 'd2', 'd3'];
export const PLAIN_AGENTS: readonly string[] = ['p0', 'p1'];
export const AGENTS: readonly string[] = [...DURABLE_AGENTS, ...PLAIN_AGENTS];
/** How much later a slow engine gets what is said to it, and is heard, in milliseconds. */
export const SLOW_MS = 50;

export interface Question {
  readonly id: string;
  readonly parts: number;
  readonly paceMs: number;
  /** The handler calls `keep`, or the policy of the server does it instead. */
  readonly keep: 'name' | 'policy' | 'no';
  /** Whether the handler is called again after the death of its node. */
  readonly again: boolean;
}

/** The text of a part says whose it is and who has said it, so that two logs of one reply differ. */
export const partOf = (question: string, part: number, attempt: number): string =>
  `${question}:${part}:${attempt} `;

/** @returns the number of a part, or NaN if it is of another reply. */
export function numberOf(question: string, text: string): number {
  const [of, part] = text.split(':');
  return of === question ? Number(part) : Number.NaN;
}
