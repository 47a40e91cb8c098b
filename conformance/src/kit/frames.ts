import { Deviation, must } from './deviation.js';

/** Link frames as bytes (section 4), written and read without the code of the product under test. */

export const Kind = {
  MESSAGE: 0,
  REQUEST: 1,
  RESPONSE: 2,
  CHUNK: 3,
  END: 4,
  ERROR: 5,
  CANCEL: 6,
  ALIAS: 7,
  ACK: 8,
  CREDIT: 9,
} as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

export const Codec = {
  NONE: 0,
  TOKEN_NATIVE: 1,
  M2M: 2,
  BROTLI: 3,
  CONTEXT: 4,
  AVP: 5,
  TOKEN: 6,
  DICTIONARY: 7,
} as const;
export type CodecName = keyof typeof Codec;

export const Flag = { MORE: 0x10, SECRET: 0x20, ADDRESSED: 0x40, META: 0x80 } as const;

/** The most bytes of a body in one frame. */
export const MAX_PIECE = 65_536;
export const MAX_TENSOR_PIECE = 262_144;
/** The smallest window that an end may state. */
export const MIN_WINDOW = 16_384;
/** The charge of a body beside its bytes. */
export const BODY_CHARGE = 16;

const NAMES = Object.keys(Kind).map((name) => name.toLowerCase());
/** Codecs whose first frame states the length that the body expands to. */
const SIZED = new Set<number>([Codec.M2M, Codec.BROTLI, Codec.TOKEN, Codec.DICTIONARY]);

export interface Frame {
  readonly kind: Kind;
  readonly stream: number;
  /** 0 for kinds that carry no body. */
  readonly codec: number;
  readonly flags: number;
  /** Everything behind the codec byte, or behind the stream ID. */
  readonly rest: Uint8Array;
  readonly bytes: Uint8Array;
}

/** The fields of the first frame of a body. */
export interface BodyHead {
  readonly agent: number | undefined;
  /** The name that {@link agent} stands for. */
  name?: string;
  readonly total: number | undefined;
  readonly expanded: number | undefined;
  readonly metadata: Uint8Array | undefined;
  readonly content: Uint8Array;
}

export const kindName = (kind: number): string => NAMES[kind] ?? `kind ${kind}`;
export const hasBody = (kind: number): boolean => kind <= Kind.CHUNK;
export const isCounted = (kind: number): boolean => kind <= Kind.ALIAS;
export const isSized = (codec: number): boolean => SIZED.has(codec);

/** An unsigned LEB128 number in its shortest form. */
export function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  bytes.push(rest);
  return bytes;
}

type Piece = number | readonly number[] | Uint8Array | string;

/** Joins bytes and byte sequences. */
export function join(...pieces: readonly Piece[]): Uint8Array {
  return Buffer.concat(
    pieces.map((piece) =>
      typeof piece === 'number'
        ? Uint8Array.of(piece)
        : typeof piece === 'string'
          ? Buffer.from(piece)
          : Uint8Array.from(piece),
    ),
  );
}

/** A link frame of any kind; a kind with a body has its codec byte first in `rest`. */
export const frame = (kind: number, stream: number, ...rest: readonly Piece[]): Uint8Array =>
  join(0x10 | kind, varint(stream), ...rest);

export interface BodyToSend {
  /** @default 0, PLAIN */
  readonly codec?: number;
  readonly bytes: Uint8Array | string;
  /** The length that a compressing codec expands to. @default the length of `bytes` */
  readonly expanded?: number;
  /** An encoded map. */
  readonly metadata?: Uint8Array;
  /** The number of an agent, which an alias frame has announced. */
  readonly agent?: number;
  readonly secret?: boolean;
  /** Lengths of the pieces; the last one is repeated. @default 65,536 */
  readonly pieces?: readonly number[];
}

/** The frames of a body. */
export function bodyFrames(kind: number, stream: number, body: BodyToSend): Uint8Array[] {
  const { codec = Codec.NONE, metadata, agent, secret = false, pieces = [MAX_PIECE] } = body;
  const bytes = typeof body.bytes === 'string' ? Buffer.from(body.bytes) : body.bytes;
  const frames: Uint8Array[] = [];
  let offset = 0;
  for (let index = 0; frames.length === 0 || offset < bytes.length; index++) {
    const piece = bytes.subarray(offset, offset + (pieces[Math.min(index, pieces.length - 1)] ?? MAX_PIECE));
    offset += piece.length;
    const more = offset < bytes.length;
    const flags = (more ? Flag.MORE : 0) | (secret ? Flag.SECRET : 0);
    if (index > 0) {
      frames.push(frame(kind, stream, flags | codec, piece));
      continue;
    }
    frames.push(
      frame(
        kind,
        stream,
        flags | codec | (metadata === undefined ? 0 : Flag.META) | (agent === undefined ? 0 : Flag.ADDRESSED),
        agent === undefined ? [] : varint(agent),
        more ? varint(bytes.length) : [],
        isSized(codec) ? varint(body.expanded ?? bytes.length) : [],
        metadata === undefined ? [] : [...varint(metadata.length), ...metadata],
        piece,
      ),
    );
  }
  return frames;
}

/** @throws {Deviation} if the bytes are no link frame. */
export function parseFrame(bytes: Uint8Array): Frame {
  const cursor = new Cursor(bytes, bytes);
  const first = cursor.byte('byte 0');
  const kind = (first & 0x0f) as Kind;
  must(first >> 4 === 1 && kind <= Kind.CREDIT, 'not a kind of link frame', bytes);
  const stream = cursor.varint('the stream ID');
  if (!hasBody(kind)) return { kind, stream, codec: 0, flags: 0, rest: cursor.rest(), bytes };
  const third = cursor.byte('the codec byte');
  must((third & 0x0f) <= Codec.DICTIONARY, 'not a codec', bytes);
  return { kind, stream, codec: third & 0x0f, flags: third & 0xf0, rest: cursor.rest(), bytes };
}

/** @throws {Deviation} if the first frame of a body lacks a field. */
export function parseHead({ codec, flags, rest, bytes }: Frame): BodyHead {
  const cursor = new Cursor(rest, bytes);
  const agent = flags & Flag.ADDRESSED ? cursor.varint('the number of an agent') : undefined;
  const total = flags & Flag.MORE ? cursor.varint('the total length') : undefined;
  const expanded = isSized(codec) ? cursor.varint('the expanded length') : undefined;
  const metadata =
    flags & Flag.META ? cursor.take(cursor.varint('the length of metadata'), 'metadata') : undefined;
  must(metadata === undefined || metadata.length <= 8192, 'more than 8 KiB of metadata', bytes);
  return { agent, total, expanded, metadata, content: cursor.rest() };
}

/** Reads bytes in order. */
export class Cursor {
  #offset = 0;
  readonly #bytes: Uint8Array;
  readonly #whole: Uint8Array;

  /** @param whole what a deviation shows. */
  constructor(bytes: Uint8Array, whole: Uint8Array) {
    this.#bytes = bytes;
    this.#whole = whole;
  }

  byte(what: string): number {
    const byte = this.#bytes[this.#offset++];
    if (byte === undefined) throw new Deviation(`the frame ends before ${what}`, this.#whole);
    return byte;
  }

  varint(what: string): number {
    let value = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = this.byte(what);
      value += (byte & 0x7f) * factor;
      must(Number.isSafeInteger(value), `${what} is above 2^53 - 1`, this.#whole);
      if (byte >= 0x80) continue;
      must(byte !== 0 || factor === 1, `${what} is not in its shortest form`, this.#whole);
      return value;
    }
  }

  take(length: number, what: string): Uint8Array {
    const piece = this.#bytes.subarray(this.#offset, this.#offset + length);
    must(piece.length === length, `the frame ends inside ${what}`, this.#whole);
    this.#offset += length;
    return piece;
  }

  rest(): Uint8Array {
    return this.#bytes.subarray(this.#offset);
  }
}
