/** How an answer has come to this page, and what its server says of it. All of it is stored with the answer. Times are in milliseconds after the question. */
export interface Reading {
  /** When the first piece came; `undefined` before that. */
  readonly from: number | undefined;
  /** When the last one came, up to now. */
  readonly to: number;
  readonly breaks: readonly Break[];
  /** The sum of the pieces that this page was handed; `undefined` until the answer has ended. */
  readonly end: ReadingEnd | undefined;
  /** The server's sum of the pieces that it has written; `undefined` if it has sent none. */
  readonly written: Written | undefined;
  /** The server is being asked what it has written. Not stored. */
  readonly isAsked?: boolean;
}

export interface Break {
  /** Such as `connection lost`. */
  readonly what: string;
  readonly from: number;
  readonly to: number;
  /** Pieces that came at once after it. */
  readonly caught: number;
  /** It is not over: {@link to} is the present time. Not stored. */
  readonly isOpen?: boolean | undefined;
}

export interface ReadingEnd {
  /** The name or ID under which the server keeps the answer. */
  readonly name: string;
  readonly chunks: number;
  /** `undefined` if this page has not seen all of them. */
  readonly sha256: string | undefined;
}

/** The entry `sum` of the metadata of a reply of `parlance serve`. */
export interface Written {
  readonly chunks: number;
  readonly sha256: string;
  /** When the first and the last chunk were written, after the request. */
  readonly ms: readonly [first: number, last: number] | undefined;
}

export const NO_READING: Reading = {
  from: undefined,
  to: 0,
  breaks: [],
  end: undefined,
  written: undefined,
};

export type Verdict =
  /** All that was written has come, once, and is what was written. */
  | 'whole'
  | 'missing'
  | 'twice'
  /** As many as were written, but not the same. */
  | 'changed'
  /** The server has not said what it has written, or this page has not seen all of it. */
  | 'unknown';

/** `undefined` until the answer has ended and the server was asked what it has written. */
export function verdictOf({ end, written, isAsked }: Reading): Verdict | undefined {
  if (end === undefined || isAsked === true) return undefined;
  if (written === undefined || end.sha256 === undefined) return 'unknown';
  if (end.chunks !== written.chunks) return end.chunks < written.chunks ? 'missing' : 'twice';
  return end.sha256 === written.sha256 ? 'whole' : 'changed';
}

const HASH = /^[0-9a-f]{64}$/;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
const isTime = (value: unknown): value is number => Number.isFinite(value);

/** The sum that a server has sent, or that a store remembers; `undefined` if it is something else. */
export function readWritten(value: unknown): Written | undefined {
  const { chunks, sha256, ms } = (value ?? {}) as Partial<Written>;
  if (!isCount(chunks) || typeof sha256 !== 'string' || !HASH.test(sha256)) return undefined;
  const isKnown = Array.isArray(ms) && ms.length === 2 && ms.every(isTime);
  return { chunks, sha256, ms: isKnown ? [ms[0], ms[1]] : undefined };
}

/** The entry of a store; another version of this page may have written it. */
export function readReading(value: unknown): Reading {
  const { from, to, breaks, end, written } = (value ?? {}) as Partial<Reading>;
  if (!isTime(to) || !Array.isArray(breaks) || !breaks.every(isBreak)) return NO_READING;
  const isEnd =
    typeof end?.name === 'string' &&
    isCount(end.chunks) &&
    (end.sha256 === undefined || HASH.test(end.sha256));
  return {
    from: isTime(from) ? from : undefined,
    to,
    breaks: breaks.map(({ isOpen, ...each }) => each),
    end: isEnd ? end : undefined,
    written: readWritten(written),
  };
}

function isBreak(value: unknown): value is Break {
  const { what, from, to, caught } = (value ?? {}) as Partial<Break>;
  return typeof what === 'string' && isTime(from) && isTime(to) && isCount(caught);
}
