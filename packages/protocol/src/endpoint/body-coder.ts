import { platform } from '#platform';
import { type AvpInput, type AvpMessage, decodeAvp, encodeAvp } from '../avp/frame.js';
import { compressBrotli, decompressBrotli } from '../codec/brotli.js';
import { decodeDictionaryBody, encodeDictionaryBody } from '../codec/dictionary.js';
import { decodeM2MBody, encodeM2MBody, readM2MBodyHeader } from '../codec/m2m.js';
import type { M2MHeader } from '../codec/m2m-header.js';
import type { M2MSecurity } from '../codec/m2m-security.js';
import { type Candidate, createSelector, type Selection } from '../codec/select.js';
import { decodeTokenBody, encodeTokenBody } from '../codec/token.js';
import { Algorithm } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { parseJson } from '../json.js';
import type { Limits } from '../limits.js';
import type { ReceivedBody } from '../link/assembly.js';
import { LinkCodec } from '../link/header.js';
import type { CodedBody } from '../link/link.js';
import { assertWellFormed, decodeUtf8, encodeUtf8, utf8Length } from '../text.js';
import type { Encoding } from '../tokenizer/encoding.js';
import { decodeTokenIds, encodeTokenIds } from '../tokenizer/varints.js';

/**
 * Between an application's content and coded bodies, for one session: the codecs that were
 * negotiated, its vocabulary and its limits.
 */
export interface BodyCoder {
  readonly limits: Limits;
  /** How `auto` chose for the last message, and why. */
  readonly lastSelection: Selection | undefined;

  /**
   * @throws {ProtocolError} `unsupported` for an algorithm that was not negotiated,
   * `unrepresentable`, `lone_surrogate`, and the limits' codes.
   */
  encode(content: string | Uint8Array, options: CoderOptions): CodedBody;
  /**
   * Like `encode`, letting the event loop run in between: tokens in slices, Brotli beside the event
   * loop where the platform can. `auto` decides by the beginning of the text.
   */
  encodeInSlices(content: string, options: CoderOptions): Promise<CodedBody>;
  /** Token IDs as they are. @throws {ProtocolError} `unsupported` where TOKEN_NATIVE was not negotiated. */
  encodeTokens(ids: readonly number[] | Uint32Array, options: CoderOptions): CodedBody;
  encodeTensor(tensor: AvpInput): CodedBody;

  /** The content, byte for byte. @throws {ProtocolError} what the codec throws. */
  decode(body: ReceivedBody): Uint8Array;
  tokens(body: ReceivedBody): Uint32Array;
  decodeTokens(ids: Uint32Array): string;
  header(body: ReceivedBody): M2MHeader;
  tensor(body: ReceivedBody): AvpMessage;
  parse<T>(text: string): T;
  /** Decodes the token parts of one stream, where a character may be split between two of them. */
  createPartText(): { push(ids: Uint32Array): string };
}

export interface CoderOptions {
  /** @default 'auto' */
  readonly algorithm?: Algorithm | 'auto' | undefined;
  readonly secret?: boolean | undefined;
  readonly metadata?: Uint8Array | undefined;
}

export interface BodyCoderOptions {
  /** What was negotiated. */
  readonly algorithms: readonly Algorithm[];
  /** The loaded vocabulary of the negotiated encoding. */
  readonly encoding: Encoding | undefined;
  readonly limits: Limits;
  /** Protection that M2M frames of the session carry and demand. */
  readonly security: M2MSecurity | undefined;
  /** Lets the event loop run. */
  readonly yield: () => Promise<void>;
}

/** UTF-16 units that `auto` looks at of a text that is coded in slices. */
const SAMPLE_LENGTH = 32 * 1024;
const BROTLI_QUALITY = 5;

export function createBodyCoder(options: BodyCoderOptions): BodyCoder {
  const { algorithms, encoding, limits, security } = options;
  const m2m = { limits, ...(security === undefined ? {} : { security }) };

  const vocabulary = (): Encoding => {
    if (encoding === undefined) {
      throw new ProtocolError(
        'unsupported',
        'no encoding was negotiated, so there are no tokens in this session',
      );
    }
    return encoding;
  };

  /** Coded forms of a text; each decodes to exactly that text but for T1, which restores its meaning. */
  const encoders: Readonly<Record<Algorithm, (text: string) => Uint8Array>> = {
    NONE: encodeUtf8,
    TOKEN_NATIVE: (text) => vocabulary().encodeVarints(text),
    M2M: (text) => encodeM2MBody(text, m2m),
    BROTLI: (text) => compressBrotli(encodeUtf8(text)),
    TOKEN: (text) => encodeTokenBody(text, { limits }),
    DICTIONARY: (text) => encodeDictionaryBody(encodeUtf8(text)),
  };

  const assertNegotiated = (algorithm: Algorithm): void => {
    if (algorithms.includes(algorithm)) return;
    throw new ProtocolError('unsupported', `${algorithm} was not negotiated; ${algorithms.join(', ')} were`);
  };

  /** `undefined` where a codec cannot carry a text: another one will. */
  const attempt = (algorithm: Algorithm) => (text: string) => {
    try {
      return encoders[algorithm](text);
    } catch (error) {
      if (isSkipped(error)) return undefined;
      throw error;
    }
  };
  const candidates: Candidate[] = algorithms
    .filter(
      (algorithm) => algorithm !== Algorithm.TOKEN && (security === undefined || algorithm === Algorithm.M2M),
    )
    .map((algorithm) => ({ algorithm, encode: attempt(algorithm), decodeIsExact: true }));
  const selector = createSelector(candidates);
  let lastSelection: Selection | undefined;

  const body = (
    algorithm: Algorithm,
    bytes: Uint8Array,
    originalLength: number,
    o: CoderOptions,
  ): CodedBody => ({
    codec: CODECS[algorithm],
    bytes,
    originalLength,
    secret: o.secret ?? false,
    metadata: o.metadata,
  });

  /** What `auto` makes of bytes that may be no text; in a session with a key only M2M protects them. */
  const bytesAlgorithm =
    security === undefined ? BYTES_ALGORITHMS.find((name) => algorithms.includes(name)) : undefined;

  const encodeBytes = (content: Uint8Array, o: CoderOptions): CodedBody => {
    const { algorithm = 'auto' } = o;
    if (algorithm !== 'auto') assertNegotiated(algorithm);
    switch (algorithm === 'auto' ? bytesAlgorithm : algorithm) {
      case Algorithm.NONE:
        return body(Algorithm.NONE, content, content.length, o);
      case Algorithm.BROTLI:
        return body(Algorithm.BROTLI, compressBrotli(content), content.length, o);
      default:
        return encodeText(textOf(content), o);
    }
  };

  const encodeText = (content: string, o: CoderOptions): CodedBody => {
    const { algorithm = 'auto' } = o;
    if (algorithm === 'auto') {
      const selection = selector.select(content);
      lastSelection = selection;
      return body(selection.algorithm, selection.body, utf8LengthOf(content, selection), o);
    }
    assertNegotiated(algorithm);
    const bytes = encoders[algorithm](content);
    return body(algorithm, bytes, algorithm === Algorithm.NONE ? bytes.length : utf8Length(content), o);
  };

  /** What `auto` makes of a long text, judging by its beginning; `undefined` where that tells nothing. */
  const selectByBeginning = (content: string): Algorithm | undefined => {
    try {
      // Half a character at the end of the sample would be refused.
      lastSelection = selector.select(content.slice(0, SAMPLE_LENGTH).replace(/[\ud800-\udbff]$/, ''));
      return lastSelection.algorithm;
    } catch (error) {
      if (isSkipped(error)) return undefined;
      throw error;
    }
  };

  return {
    limits,
    get lastSelection() {
      return lastSelection;
    },

    encode: (content, o) => (typeof content === 'string' ? encodeText(content, o) : encodeBytes(content, o)),

    async encodeInSlices(content, o) {
      assertWellFormed(content);
      const { algorithm = 'auto' } = o;
      const chosen = algorithm === 'auto' ? selectByBeginning(content) : algorithm;
      if (chosen === undefined) return encodeText(content, o);
      assertNegotiated(chosen);
      if (chosen === Algorithm.TOKEN_NATIVE) {
        const slices = vocabulary().encodeSlices(content);
        let slice = slices.next();
        for (; !slice.done; slice = slices.next()) await options.yield();
        return body(chosen, encodeTokenIds(slice.value), utf8Length(content), o);
      }
      if (chosen === Algorithm.BROTLI) {
        const bytes = encodeUtf8(content);
        return body(chosen, await platform.brotliCompressLater(bytes, BROTLI_QUALITY), bytes.length, o);
      }
      try {
        return encodeText(content, { ...o, algorithm: chosen });
      } catch (error) {
        // The end of a text may not keep what its beginning promised.
        if (algorithm === 'auto' && isSkipped(error)) return encodeText(content, o);
        throw error;
      }
    },

    encodeTokens(ids, o) {
      assertNegotiated(Algorithm.TOKEN_NATIVE);
      const known = ids instanceof Uint32Array ? ids : Uint32Array.from(ids);
      const length = vocabulary().byteLength(known);
      return body(Algorithm.TOKEN_NATIVE, encodeTokenIds(known), length, o);
    },

    encodeTensor(tensor) {
      const bytes = encodeAvp(tensor);
      return {
        codec: LinkCodec.AVP,
        bytes,
        originalLength: bytes.length,
        secret: false,
        metadata: undefined,
      };
    },

    decode({ codec, bytes, originalLength }) {
      switch (codec) {
        case LinkCodec.PLAIN:
        case LinkCodec.AVP:
          return bytes;
        case LinkCodec.TOKEN_NATIVE:
          return vocabulary().decodeBytes(decodeTokenIds(bytes), { maxBytes: limits.maxMessageSize });
        case LinkCodec.M2M:
          return stated(
            decodeM2MBody(bytes, { ...m2m, limits: bounded(limits, originalLength, bytes) }).bytes,
            originalLength,
          );
        case LinkCodec.BROTLI:
          return stated(decompressBrotli(bytes, bounded(limits, originalLength, bytes)), originalLength);
        case LinkCodec.TOKEN:
          return encodeUtf8(decodeTokenBody(bytes, { limits }));
        case LinkCodec.DICTIONARY:
          return stated(decodeDictionaryBody(bytes, bounded(limits, originalLength, bytes)), originalLength);
        default:
          throw new ProtocolError('unsupported', `bodies in codec ${codec} are not decoded here`);
      }
    },

    tokens: (received) => decodeTokenIds(received.bytes),
    decodeTokens: (ids) => vocabulary().decode(ids, { maxBytes: limits.maxMessageSize }),
    header: (received) => readM2MBodyHeader(received.bytes),
    tensor: (received) => decodeAvp(received.bytes, { maxSize: limits.maxTransferSize }),
    parse: (text) => parseJson(text, limits),
    createPartText: () => vocabulary().createDecoder({ maxBytes: limits.maxMessageSize }),
  };
}

const CODECS = {
  NONE: LinkCodec.PLAIN,
  TOKEN_NATIVE: LinkCodec.TOKEN_NATIVE,
  M2M: LinkCodec.M2M,
  BROTLI: LinkCodec.BROTLI,
  TOKEN: LinkCodec.TOKEN,
  DICTIONARY: LinkCodec.DICTIONARY,
} as const satisfies Record<Algorithm, LinkCodec>;

/** Algorithms that carry any bytes, in order of preference. */
const BYTES_ALGORITHMS = [Algorithm.NONE, Algorithm.BROTLI] as const;

/** Refusals of one codec that leave the others a chance. */
const SKIPPED: ReadonlySet<string> = new Set([
  'unrepresentable',
  'bad_json',
  'json_too_deep',
  'string_too_long',
  'array_too_long',
]);

function isSkipped(error: unknown): boolean {
  return error instanceof ProtocolError && SKIPPED.has(error.code);
}

function textOf(content: Uint8Array): string {
  try {
    return decodeUtf8(content);
  } catch (cause) {
    throw new ProtocolError('unrepresentable', 'bytes that are no text need NONE or BROTLI', { cause });
  }
}

/** A body that states its length may not expand beyond it, whatever the limits allow. */
function bounded(limits: Limits, originalLength: number | undefined, coded: Uint8Array): Limits {
  if (originalLength === undefined) return limits;
  // The same limit bounds the coded bytes, which may be more than the content of a short message.
  return {
    ...limits,
    maxMessageSize: Math.min(limits.maxMessageSize, Math.max(1, originalLength, coded.length)),
  };
}

function stated(content: Uint8Array, originalLength: number | undefined): Uint8Array {
  if (originalLength === undefined || content.length === originalLength) return content;
  throw new ProtocolError('bad_frame', `a body states ${originalLength} bytes and holds ${content.length}`);
}

function utf8LengthOf(content: string, selection: Selection): number {
  return selection.algorithm === Algorithm.NONE ? selection.body.length : utf8Length(content);
}
