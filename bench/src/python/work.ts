/** What a client does, in this language and in `load.py`. */

export interface Work {
  readonly name: 'requests' | 'chunks';
  /** Answers, or chunks of answers, that have to come. */
  readonly count: number;
}

/** What it cost. */
export interface Cost {
  readonly seconds: number;
  /** Microseconds of CPU of the client's process. */
  readonly cpuUs: number;
}

/** Requests that are under way at a time. */
export const DEPTH = 64;
/** Chunks of one answer; so many answers come at a time. */
export const CHUNKS = 2_000;
export const STREAMS = 4;
/** A request of 1 KB, which is answered with itself. */
export const QUESTION = {
  role: 'user',
  content: 'The quick brown fox jumps over the lazy dog. '.repeat(21).trim(),
};
/** 45 bytes of JSON. */
export const CHUNK = { delta: 'a few words of an answer', index: 1 };
