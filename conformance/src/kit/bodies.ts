import { decode, encode } from '@msgpack/msgpack';
import { platform } from '../../../packages/protocol/src/platform/node.js';
import {
  type BodyCodec,
  createBodyCoder,
  DEFAULT_LIMITS,
  type Encoding,
  isProtocolError,
} from '../subject.js';
import { Deviation } from './deviation.js';
import { Codec, type CodecName } from './frames.js';

/** Bodies and their content. The codecs are those of `@parlance/protocol`, which the vectors test. */

export type Fields = Record<string, unknown>;

export interface Body {
  readonly codec: number;
  /** Before decoding. */
  readonly coded: Uint8Array;
  readonly content: Uint8Array;
  readonly secret: boolean;
  readonly metadata: Fields | undefined;
  /** The name of the agent that it is addressed with. */
  readonly agent: string | undefined;
  /** The frames that it came in. */
  readonly frames: number;
}

export const textOf = ({ content }: { content: Uint8Array }): string => Buffer.from(content).toString();

export const packed = (fields: unknown): Uint8Array => encode(fields);

/** @throws {Deviation} if the bytes are not one MessagePack map. */
export function unpacked(bytes: Uint8Array, what: string, whole = bytes): Fields {
  let value: unknown;
  try {
    value = decode(bytes);
  } catch (error) {
    throw new Deviation(`${what} is not MessagePack (${(error as Error).message})`, whole);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Deviation(`${what} is not a map`, whole);
  return value as Fields;
}

/** One zstd frame, with a dictionary of raw content. */
export const compressZstd = (bytes: Uint8Array, dictionary: Uint8Array): Uint8Array =>
  platform.zstdCompress(bytes, 3, dictionary.length === 0 ? undefined : dictionary);

/** The codecs in which any text can be sent; M2M and T1 take JSON. */
export class Coder {
  readonly #coder: ReturnType<typeof createBodyCoder>;

  constructor(algorithms: readonly string[], encoding: Encoding | undefined) {
    this.#coder = createBodyCoder({
      algorithms: algorithms as [],
      encoding,
      security: undefined,
      limits: DEFAULT_LIMITS,
      yield: async () => {},
    });
  }

  encode(text: string, algorithm: CodecName): { codec: number; bytes: Uint8Array; expanded: number } {
    const body = this.#coder.encode(encodesBytes(algorithm) ? Buffer.from(text) : text, {
      algorithm: algorithm as 'NONE',
      compressAlone: false,
      metadata: undefined,
    });
    return { codec: body.codec, bytes: body.bytes, expanded: body.originalLength };
  }

  /** @throws {Deviation} if the body cannot be decoded. */
  decode(codec: number, bytes: Uint8Array, expanded: number | undefined): Uint8Array {
    if (codec === Codec.NONE || codec === Codec.AVP) return bytes;
    try {
      return this.#coder.decode({
        codec: codec as BodyCodec,
        bytes,
        originalLength: expanded,
        secret: false,
        metadata: undefined,
        charge: 0,
      });
    } catch (error) {
      if (!isProtocolError(error)) throw error;
      throw new Deviation(
        `a body in ${nameOf(codec)} cannot be decoded (${error.code}: ${error.message})`,
        bytes,
      );
    }
  }
}

const encodesBytes = (algorithm: CodecName) => algorithm === 'NONE';

export const nameOf = (codec: number): string =>
  Object.entries(Codec).find(([, number]) => number === codec)?.[0] ?? `codec ${codec}`;
