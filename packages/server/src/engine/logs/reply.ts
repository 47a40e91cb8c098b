/** A kept reply, as the log of a server and engines have it. */

/** Parts that one call of `read` returns. */
export const READ_PARTS = 256;

/** Bytes of the failure and the metadata of an end for which a reply has room from its beginning. */
export const SMALL_END = 512;

/** A request of a recorded session: another node may continue it. */
export interface DurableRequest {
  readonly session: string;
  readonly stream: number;
}

/** A reply as it begins. */
export interface ReplyHead {
  readonly id: string;
  /** See `owner.ts`. */
  readonly owner: string;
  /** `undefined` without authentication. */
  readonly principal: string | undefined;
  readonly name: string | undefined;
  /** JSON of at most 1 KiB. */
  readonly share: string | undefined;
  /** The encoding of its token IDs. */
  readonly encoding: string | undefined;
  /** Milliseconds after the end. */
  readonly ttlMs: number;
  /** Unix milliseconds. */
  readonly startedAt: number;
}

export interface ReplyEnd {
  /** Unix milliseconds. */
  readonly at: number;
  /** The body of an error frame; `undefined` if the reply is complete. */
  readonly failure: Uint8Array | undefined;
  /** Metadata that came after the last part. */
  readonly metadata: Uint8Array | undefined;
}

export interface ReplyEntry extends ReplyHead {
  readonly parts: number;
  readonly end: ReplyEnd | undefined;
}

export interface ReplyPieces {
  /** Of parts `after` + 1 and on. */
  readonly records: readonly Uint8Array[];
  /** The metadata of the reply as of part `after`. */
  readonly metadata: Uint8Array | undefined;
  /** Set if the records reach up to the end. */
  readonly end: ReplyEnd | undefined;
}
