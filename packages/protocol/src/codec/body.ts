import type { ContextEncoder, ContextOffer } from './context/encoder.js';

/** A coded body: the content of one message or part, in one codec, without the frames that carry it. */

/** How a body is coded: the low nibble of a link frame's third byte (docs/protocol/link.md). */
export const BodyCodec = {
  /** The bytes themselves. */
  PLAIN: 0,
  /** Varint token IDs of the negotiated encoding, without a tokenizer byte. */
  TOKEN_NATIVE: 1,
  /** An M2M v1 frame without its 7-byte prefix. */
  M2M: 2,
  /** A Brotli stream. */
  BROTLI: 3,
  /** Coded against an earlier message of the same direction; see `context/body.ts`. */
  CONTEXT: 4,
  /** An AVP frame. */
  AVP: 5,
  /** Abbreviated JSON (T1). */
  TOKEN: 6,
  /** Dictionary-substituted bytes. */
  DICTIONARY: 7,
} as const;
export type BodyCodec = (typeof BodyCodec)[keyof typeof BodyCodec];

/**
 * Whether the first frame of a body states the length that the body expands to: all compressing codecs
 * but CONTEXT, whose bodies state it themselves.
 */
export function isSized(codec: BodyCodec): boolean {
  return SIZED.has(codec);
}
const SIZED: ReadonlySet<BodyCodec> = new Set([
  BodyCodec.M2M,
  BodyCodec.BROTLI,
  BodyCodec.TOKEN,
  BodyCodec.DICTIONARY,
]);

/** A body to be sent. */
export interface CodedBody {
  readonly codec: BodyCodec;
  readonly bytes: Uint8Array;
  /** Bytes after decoding. */
  readonly originalLength: number;
  /** Neither coded against other messages nor ever a base for coding them. */
  readonly secret: boolean;
  /** An encoded metadata map. */
  readonly metadata: Uint8Array | undefined;
  /** Set if the body is coded only when it is written; until then it is plain. */
  readonly deferred?: DeferredEncoding | undefined;
}

/**
 * Coding that waits for the body's first frame. Only then is it certain which messages were written
 * before it, and so which of them it can refer to.
 */
export interface DeferredEncoding {
  /**
   * Codes the body in context, or in another codec if that is smaller. The result exceeds the content by
   * at most {@link MAX_DEFERRED_GROWTH} bytes. Does not throw.
   *
   * @param kind of the frame: the encoder learns for each kind separately.
   */
  encode(encoder: ContextEncoder, streamId: number, kind: number, isPart: boolean): DeferredBody;
}

export interface DeferredBody extends Pick<CodedBody, 'codec' | 'bytes' | 'originalLength'> {
  /** The entry that the body adds to the list of bases; `undefined` if it is not coded in context. */
  readonly offer: ContextOffer | undefined;
}

export const MAX_DEFERRED_GROWTH = 16;

/** A body that was received as a whole and is not decoded yet. */
export interface ReceivedBody {
  readonly codec: BodyCodec;
  readonly bytes: Uint8Array;
  /** Bytes after decoding, if the codec states them; already within the limits. */
  readonly originalLength: number | undefined;
  /** The decoded content of a body in context, which had to be decoded on arrival. Must not be changed. */
  readonly content?: Uint8Array | undefined;
  /** The tail of an M2M frame whose protection was checked on arrival. */
  readonly opened?: Uint8Array | undefined;
  readonly secret: boolean;
  /** The encoded metadata map. */
  readonly metadata: Uint8Array | undefined;
  /** The name of the receiver, at a server; of the sender, at a client. @default the peer itself */
  readonly address?: string | undefined;
  /** Credit of its stream that the body uses up until the application has taken it. */
  readonly charge: number;
  /** Of token IDs: counts the bytes of their text, once it is known; see {@link countText}. */
  count?: BodyCount | undefined;
  /** The sender's scan result; only in `m2m.v1.json`. */
  readonly securityStatus?: SecurityStatus | undefined;
}

/** The result of a content scan. Sessions carry it and never interpret it. */
export interface SecurityStatus {
  readonly scanned: boolean;
  readonly safe: boolean;
  readonly threatType?: string | undefined;
  readonly confidence?: number | undefined;
}

/** A body of bytes that are sent as they are. */
export function plainBody(bytes: Uint8Array, metadata?: Uint8Array): CodedBody {
  return { codec: BodyCodec.PLAIN, bytes, originalLength: bytes.length, secret: false, metadata };
}

/** Counters of the bodies of one codec in one direction. */
export interface BodyCount {
  bodies: number;
  codedBytes: number;
  contentBytes: number;
}

/** Token IDs of a coded body; 0 in other codecs than TOKEN_NATIVE. Each varint ends with a byte below 0x80. */
export function countTokens(codec: BodyCodec, bytes: Uint8Array): number {
  if (codec !== BodyCodec.TOKEN_NATIVE) return 0;
  let count = 0;
  for (const byte of bytes) if (byte < 0x80) count++;
  return count;
}

/** A body was decoded: one of token IDs says only now how long its text is. */
export function countText({ count, bytes }: ReceivedBody, length: number): void {
  if (count !== undefined) count.contentBytes += length - bytes.length;
}

/** The role of a body: a one-way message, a request, or a reply or a part of one. */
export type BodyRole = 'messages' | 'requests' | 'parts';

/** Counters by codec number; an array is the cheapest map on the data path. */
export class BodyCounts {
  /** At its full length: an array that grows takes room for seventeen. */
  readonly byCodec: (BodyCount | undefined)[] = new Array(BodyCodec.DICTIONARY + 1);
  /** Bodies by what they are, since this process has the session. */
  messages = 0;
  requests = 0;
  parts = 0;
  /** Token IDs of bodies in TOKEN_NATIVE, since this process has the session. */
  tokens = 0;

  add(codec: BodyCodec, codedBytes: number, contentBytes: number, role: BodyRole = 'parts'): BodyCount {
    this[role]++;
    let count = this.byCodec[codec];
    if (count === undefined) {
      count = { bodies: 0, codedBytes: 0, contentBytes: 0 };
      this.byCodec[codec] = count;
    }
    count.bodies++;
    count.codedBytes += codedBytes;
    count.contentBytes += contentBytes;
    return count;
  }
}
