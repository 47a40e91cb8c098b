import type { Body, Fields } from './bodies.js';

/** Requests in both directions, as scenarios see them. */

/** A request of the kit and what has come of its reply. */
export interface Call {
  readonly id: number;
  readonly parts: Body[];
  /** The test that it asks for, if it asks for one. */
  wish?: string;
  response?: Body;
  /** The body of END. */
  end?: Uint8Array;
  error?: Fields;
}

/** A request of the peer. */
export interface Asked {
  readonly id: number;
  readonly body: Body;
  isCancelled: boolean;
}

export const isOver = (call: Call): boolean =>
  call.response !== undefined || call.end !== undefined || call.error !== undefined;
