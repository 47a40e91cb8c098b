import { ByteReader, varintLength, writeVarint } from '../base/bytes.js';
import { MAX_STREAM_ID } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { LINK_FIRST_BYTE } from '../base/frame-kind.js';
import { BodyCodec, type CodedBody, isSized } from '../codec/body.js';

/**
 * Link frames on the wire.
 *
 *     byte 0   0x10 | kind
 *     varint   stream ID
 *     byte     codec | flags                  message, request, response, chunk
 *     varint   alias of a name                first frame of a body with ADDRESSED
 *     varint   total length of the body       first frame of a body with MORE
 *     varint   original length                first frame of a body in a compressing codec other than CONTEXT
 *     varint   metadata length, then the map  first frame of a body with META
 *     rest     the body's bytes
 *
 * A header takes three bytes on an established stream below ID 128, four below 16,384.
 */

export const LinkKind = {
  /** One-way message on stream 0. */
  MESSAGE: 0,
  /** Opens a stream. */
  REQUEST: 1,
  /** The only reply on a stream; closes it. */
  RESPONSE: 2,
  /** One part of a reply. */
  CHUNK: 3,
  /** No more parts; closes the stream. The body is empty, or the CRC-32 of all parts. */
  END: 4,
  /** The request failed; closes the stream. The body is a MessagePack map. */
  ERROR: 5,
  /** The opener wants nothing more; answered by end or error. */
  CANCEL: 6,
  /** Announces a number for a name. The number takes the place of the stream ID; the body is the name. */
  ALIAS: 7,
  /** Number of counted frames received so far. Not counted itself. */
  ACK: 8,
  /** Offset up to which the peer may send on a stream. Not counted itself. */
  CREDIT: 9,
} as const;
export type LinkKind = (typeof LinkKind)[keyof typeof LinkKind];

/** Kinds that have a codec byte. */
export type BodyKind =
  | typeof LinkKind.MESSAGE
  | typeof LinkKind.REQUEST
  | typeof LinkKind.RESPONSE
  | typeof LinkKind.CHUNK;

/** High nibble of the third byte. */
export const LinkFlag = {
  /** More frames of this body follow. */
  MORE: 0x10,
  /** The body is never a base for coding later messages. */
  SECRET: 0x20,
  /** An alias precedes the body: of the receiver, if sent to a server; of the sender, if sent to a client. */
  ADDRESSED: 0x40,
  /** A metadata map precedes the body. */
  META: 0x80,
} as const;

export { MAX_STREAM_ID };

/** Frames with a first byte up to this one are of the link, if their kind is known. */
const LAST_FIRST_BYTE = LINK_FIRST_BYTE | 0x0f;
const LAST_KIND = LinkKind.CREDIT;
const LAST_CODEC = BodyCodec.DICTIONARY;
const LAST_BODY_KIND = LinkKind.CHUNK;
/** Both ends count frames of kinds up to this one. */
const LAST_COUNTED_KIND = LinkKind.ALIAS;

/** Whether frames of a kind belong to a request, a reply or a tensor. */
export function isOfStream(kind: LinkKind): boolean {
  return kind >= LinkKind.REQUEST && kind <= LinkKind.CANCEL;
}

export function isCounted(kind: LinkKind): boolean {
  return kind <= LAST_COUNTED_KIND;
}

/** Whether a WebSocket message is a link frame that only says something about others: cancel, alias, ack or credit. */
export function isSignal(message: Uint8Array | string): boolean {
  const first = message[0];
  return (
    typeof first === 'number' && first >= (LINK_FIRST_BYTE | LinkKind.CANCEL) && first <= LAST_FIRST_BYTE
  );
}

/** The outbox, for frames that are not counted. */
export interface UncountedFrames {
  /** Writes an acknowledgement or a credit frame. */
  pushUncounted(frame: Uint8Array): void;
}

export function isBodyKind(kind: LinkKind): kind is BodyKind {
  return kind <= LAST_BODY_KIND;
}

/** A received link frame. Byte arrays are views of it. */
export interface LinkFrame {
  readonly kind: LinkKind;
  readonly streamId: number;
  readonly codec: BodyCodec;
  /** High nibble of the third byte; 0 for kinds without one. */
  readonly flags: number;
  /** Everything after the third byte, or after the stream ID for kinds without one. */
  readonly rest: Uint8Array;
}

/**
 * Reads the head of a link frame.
 *
 * @throws {ProtocolError} `bad_frame`, `truncated` or `bad_varint`.
 */
export function decodeLinkFrame(bytes: Uint8Array): LinkFrame {
  const kind = (bytes[0] ?? 0) & 0x0f;
  if (kind > LAST_KIND) throw new ProtocolError('bad_frame', `unknown kind ${kind} of link frame`);

  let streamId = bytes[1] ?? 0x80;
  let offset = 2;
  if (streamId >= 0x80) {
    const reader = new ByteReader(bytes, 1);
    streamId = reader.varint('the stream ID', kind >= LinkKind.ACK ? Number.MAX_SAFE_INTEGER : MAX_STREAM_ID);
    offset = reader.offset;
  }
  if (kind > LAST_BODY_KIND) {
    return {
      kind: kind as LinkKind,
      streamId,
      codec: BodyCodec.PLAIN,
      flags: 0,
      rest: bytes.subarray(offset),
    };
  }

  const third = bytes[offset];
  if (third === undefined) throw new ProtocolError('truncated', 'the link frame ends before its codec byte');
  const codec = third & 0x0f;
  if (codec > LAST_CODEC) throw new ProtocolError('bad_frame', `unknown codec ${codec} in a link frame`);
  if (third & LinkFlag.ADDRESSED && kind > LinkKind.REQUEST) {
    throw new ProtocolError('bad_frame', 'a reply carries no alias');
  }
  return {
    kind: kind as LinkKind,
    streamId,
    codec: codec as BodyCodec,
    flags: third & 0xf0,
    rest: bytes.subarray(offset + 1),
  };
}

/** The first frame of a body, split. */
export interface BodyHead {
  /** The number of a name, if the frame is ADDRESSED. */
  readonly alias: number | undefined;
  /** Length of the whole coded body, in bytes. */
  readonly totalLength: number;
  /** Bytes after decoding, if the codec states them. */
  readonly originalLength: number | undefined;
  /** The MessagePack map, if the frame has META. */
  readonly metadata: Uint8Array | undefined;
  readonly bytes: Uint8Array;
}

/**
 * Splits the first frame of a body.
 *
 * @throws {ProtocolError} `truncated`, `bad_varint`, `metadata_too_large`.
 */
export function decodeBodyHead(frame: LinkFrame, maxMetadataSize: number): BodyHead {
  const sized = isSized(frame.codec);
  const more = (frame.flags & LinkFlag.MORE) !== 0;
  if (!sized && !more && !(frame.flags & (LinkFlag.META | LinkFlag.ADDRESSED))) {
    const { rest: bytes } = frame;
    return {
      alias: undefined,
      totalLength: bytes.length,
      originalLength: undefined,
      metadata: undefined,
      bytes,
    };
  }
  const reader = new ByteReader(frame.rest);
  const alias = frame.flags & LinkFlag.ADDRESSED ? reader.varint('the alias') : undefined;
  const total = more ? reader.varint('the total length') : undefined;
  const originalLength = sized ? reader.varint('the original length') : undefined;
  let metadata: Uint8Array | undefined;
  if (frame.flags & LinkFlag.META) {
    const length = reader.varint('the metadata length');
    if (length > maxMetadataSize) {
      throw new ProtocolError(
        'metadata_too_large',
        `metadata of ${length} bytes exceed the limit of ${maxMetadataSize}`,
      );
    }
    metadata = reader.take(length, 'metadata');
  }
  const bytes = reader.rest();
  if (total !== undefined && bytes.length >= total) {
    throw new ProtocolError('bad_frame', `the first frame of a body of ${total} bytes holds ${bytes.length}`);
  }
  return { alias, totalLength: total ?? bytes.length, originalLength, metadata, bytes };
}

/** The fields of a body's frames. */
export interface BodyFields extends Pick<CodedBody, 'codec' | 'originalLength' | 'secret' | 'metadata'> {
  readonly kind: BodyKind;
  readonly streamId: number;
  /** The name of whom a message or request is for, or is from. @default the peer itself */
  readonly address?: string | undefined;
  /** The number of `address`, known when the first frame is written. */
  alias?: number | undefined;
  /**
   * Called after the last frame is written, with the number of counted frames so far. Called again if the body is a
   * one-way message that a rebuilt link writes again; that link counts from 0.
   */
  readonly onWritten?: ((count: number) => void) | undefined;
}

/** A body that is queued for a stream: its coded bytes, and the fields of its frames. */
export interface OutgoingBody extends CodedBody, BodyFields {
  /** Called if the stream is cancelled before the last frame is written, also if it was when the body was given. */
  readonly onDropped?: (() => void) | undefined;
  /** A message that was coded in context as it was before that, for a rebuilt link. */
  readonly uncoded?: OutgoingBody | undefined;
}

/**
 * Length of the fields between the codec byte and the bytes of a body, in its first frame.
 *
 * @param total bytes of the whole body.
 * @param isWhole whether the frame carries all of them.
 */
export function bodyHeadLength(
  { codec, originalLength, metadata, alias }: BodyFields,
  total: number,
  isWhole: boolean,
): number {
  const length =
    (alias === undefined ? 0 : varintLength(alias)) +
    (isWhole ? 0 : varintLength(total)) +
    (isSized(codec) ? varintLength(originalLength) : 0);
  return metadata === undefined ? length : length + varintLength(metadata.length) + metadata.length;
}

/** Length of the frame that carries bytes `start` to `end` of a body of `total` bytes. */
export function bodyFrameLength(body: BodyFields, total: number, start: number, end: number): number {
  const head = start === 0 ? bodyHeadLength(body, total, end === total) : 0;
  return 2 + varintLength(body.streamId) + head + (end - start);
}

/**
 * Writes the beginning of the frame that carries bytes `start` to `end` of a body of `total` bytes, at `at`
 * in `target`. Returns where the body's bytes go: header and bytes form one buffer, as two WebSocket
 * fragments cost a receiver 1.7 times the CPU.
 */
export function writeBodyHead(
  target: Uint8Array,
  at: number,
  body: BodyFields,
  total: number,
  start: number,
  end: number,
): number {
  const { metadata, alias } = body;
  const isFirst = start === 0;
  target[at] = LINK_FIRST_BYTE | body.kind;
  at = writeVarint(target, at + 1, body.streamId);
  target[at++] =
    body.codec |
    (end < total ? LinkFlag.MORE : 0) |
    (body.secret ? LinkFlag.SECRET : 0) |
    (isFirst && alias !== undefined ? LinkFlag.ADDRESSED : 0) |
    (isFirst && metadata !== undefined ? LinkFlag.META : 0);
  if (!isFirst) return at;
  if (alias !== undefined) at = writeVarint(target, at, alias);
  if (end < total) at = writeVarint(target, at, total);
  if (isSized(body.codec)) at = writeVarint(target, at, body.originalLength);
  if (metadata === undefined) return at;
  at = writeVarint(target, at, metadata.length);
  target.set(metadata, at);
  return at + metadata.length;
}

/** Encodes the frame that carries bytes `start` to `end` of `body`, in a buffer of its own. */
export function encodeBodyFrame(body: OutgoingBody, start: number, end: number): Uint8Array<ArrayBuffer> {
  const { bytes } = body;
  const frame = new Uint8Array(bodyFrameLength(body, bytes.length, start, end));
  const at = writeBodyHead(frame, 0, body, bytes.length, start, end);
  frame.set(bytes.subarray(start, end), at);
  return frame;
}

/** Encodes a frame of a kind without a codec byte. @param rest everything after the stream ID. */
export function encodeSignalFrame(
  kind: LinkKind,
  streamId: number,
  rest: Uint8Array = NOTHING,
): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(1 + varintLength(streamId) + rest.length);
  frame[0] = LINK_FIRST_BYTE | kind;
  frame.set(rest, writeVarint(frame, 1, streamId));
  return frame;
}
const NOTHING = new Uint8Array(0);

/** Whether a written link frame is the last of a message, request or transfer. */
export function endsMessage(frame: Uint8Array): boolean {
  const kind = (frame[0] ?? 0) & 0x0f;
  if (kind !== LinkKind.MESSAGE && kind !== LinkKind.REQUEST) return false;
  return (decodeLinkFrame(frame).flags & LinkFlag.MORE) === 0;
}
