import { openSync, readFileSync, writeSync } from 'node:fs';

/**
 * The effects of the handlers of all nodes outside their sessions: lines that they append to one file, which outlives
 * them. The ledger knows nothing else of nodes but their process IDs.
 */

/** Names and values of one line, after its time and process. */
export type Effect =
  /** `onSession` was called, with a count in its state. */
  | readonly [kind: 'begin', session: string, count: number]
  /** A message of this number is handled, after `count` others, as the state says. */
  | readonly [kind: 'take', session: string, number: number, count: number, isRedelivered: boolean]
  /** `send` of a note has resolved. */
  | readonly [kind: 'noted', session: string, note: string]
  /** A handler of a question was called, and was told how many parts there are already. */
  | readonly [kind: 'start', question: string, attempt: number, said: number]
  /** It has yielded the last part. */
  | readonly [kind: 'done', question: string]
  /** It has called `keep`. */
  | readonly [kind: 'kept', question: string, reply: string]
  /** Its signal has aborted. */
  | readonly [kind: 'stopped', question: string, code: string]
  /** The node has heard that another one has the session. */
  | readonly [kind: 'fenced', session: string]
  /** `onSession` has got an error. */
  | readonly [kind: 'ended', session: string, code: string]
  /** A reply is no longer kept. */
  | readonly [kind: 'unkept', reply: string, why: string]
  /** The engine does not answer the node, or answers it again. */
  | readonly [kind: 'stalled' | 'answered']
  /** The node has given its sessions up, as its lease is over and others are well. */
  | readonly [kind: 'cut off']
  | readonly [kind: 'fault', what: string];

export interface DatedEffect {
  /** Unix milliseconds. */
  readonly at: number;
  readonly pid: number;
  readonly effect: Effect;
}

/** Appends to `file`, in one write for each line. */
export function createEffects(file: string): (...effect: Effect) => void {
  const descriptor = openSync(file, 'a');
  return (...effect) => {
    writeSync(descriptor, `${JSON.stringify([Date.now(), process.pid, ...effect])}\n`);
  };
}

export function readEffects(file: string): readonly DatedEffect[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => {
    const [at, pid, ...effect] = JSON.parse(line) as [number, number, ...Effect];
    return { at, pid, effect };
  });
}
