import { platform } from '#platform';
import { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { parseJson } from '../../base/json.js';
import type { Limits } from '../../base/limits.js';
import { assertWellFormed, decodeUtf8, encodeUtf8, utf8Length } from '../../base/text.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { decodeTokenIds, encodeTokenIds } from '../../tokenizer/varints.js';
import { type AvpMessage, decodeAvp } from '../avp/frame.js';
import { BodyCodec, type CodedBody, MAX_DEFERRED_GROWTH, plainBody, type ReceivedBody } from '../body.js';
import type { M2MHeader } from '../m2m/header.js';
import {
  decodeM2MBody,
  decodeOpenedM2MBody,
  encodeM2MBody,
  type M2MEncodeOptions,
  readM2MBodyHeader,
} from '../m2m/m2m.js';
import type { M2MSecurity } from '../m2m/security.js';
import { compressBrotli, decompressBrotli, storeBrotli } from '../text/brotli.js';
import { decodeDictionaryBody, encodeDictionaryBody } from '../text/dictionary.js';
import { EXPANSION_FLOOR, largestExpansion } from '../text/expansion.js';
import { decodeTokenBody, encodeTokenBody } from '../text/token.js';
import { DeferredEncoder, type LastSelection, type StatelessBody } from './deferred.js';
import { type Candidate, createSelector, type Selection } from './select.js';

/**
 * Between an application's content and coded bodies, for one session: the codecs that were
 * negotiated, its vocabulary and its limits.
 */
export interface BodyCoder {
  readonly limits: Limits;
  /** How `auto` chose for the last message, and why. */
  readonly lastSelection: LastSelection | undefined;

  /**
   * A body, or one that is coded when it is written.
   *
   * @throws {ProtocolError} `unsupported` for an algorithm that was not negotiated,
   * `unrepresentable`, `lone_surrogate`, and the limits' codes.
   */
  encode(content: string | Uint8Array, options: CoderOptions): CodedBody;
  /**
   * Like `encode`, letting the event loop run in between: tokens in slices, Brotli beside the event
   * loop where the platform can. `auto` decides by the beginning of the text.
   */
  encodeInSlices(content: string, options: CoderOptions): Promise<CodedBody>;
  /** Whether `encode` leaves a message to be coded in context when it is written, which takes no slices. */
  isDeferred(content: string | Uint8Array, options: CoderOptions): boolean;
  /** Nothing but metadata. */
  encodeNothing(metadata: Uint8Array): CodedBody;
  /** Token IDs as they are. @throws {ProtocolError} `unsupported` where TOKEN_NATIVE was not negotiated. */
  encodeTokens(ids: readonly number[] | Uint32Array, options: CoderOptions): CodedBody;

  /**
   * Bytes of memory that a received body takes once its content is decoded, as bytes and as text; 0 for a
   * small one, of which there are only as many as windows and streams let through. Decodes nothing.
   */
  memoryOf(body: ReceivedBody): number;
  /** Bytes of the content of a received body, at most. Decodes nothing. */
  decodedLength(body: ReceivedBody): number;
  /** The content, byte for byte. @throws {ProtocolError} what the codec throws. */
  decode(body: ReceivedBody): Uint8Array;
  tokens(body: ReceivedBody): Uint32Array;
  decodeTokens(ids: Uint32Array): string;
  header(body: ReceivedBody): M2MHeader;
  tensor(body: ReceivedBody): AvpMessage;
  /** @param onValues see `parseJson`. */
  parse<T>(text: string, onValues?: (values: number) => void): T;
  /** Decodes the token parts of one stream, where a character may be split between two of them. */
  createPartText(): { push(ids: Uint32Array): string; end(): void };
}

export interface CoderOptions {
  /** @default 'auto' */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  readonly secret?: boolean | undefined;
  readonly metadata?: Uint8Array | undefined;
}

interface StatelessOptions extends CoderOptions {
  readonly algorithm?: Algorithm | 'auto' | undefined;
}

export interface BodyCoderOptions {
  /** What was negotiated. */
  readonly algorithms: readonly Algorithm[];
  /** The loaded vocabulary of the negotiated encoding. */
  readonly encoding: Encoding | undefined;
  readonly limits: Limits;
  /** Protection that M2M frames of the session carry and demand. */
  readonly security: M2MSecurity | undefined;
  /** Where context coding was agreed. */
  readonly context?: ContextCoderOptions | undefined;
  /** Lets the event loop run. */
  readonly yield: () => Promise<void>;
  /** Refuses bodies that expand beyond what a session takes. @default true */
  readonly isBounded?: boolean | undefined;
}

export interface ContextCoderOptions {
  /** Bytes of a message that the peer takes, in any codec. */
  readonly maxMessageSize: number;
}

/** UTF-16 units up to which a text without quotation marks is taken for its tokens. */
const SHORT_TEXT = 96;
/** Bytes that are worth a look for earlier ones like them: a few tokens travel as such. */
const MIN_LATE = 32;
/** Coded while everybody else waits, for some 20 ms; and zstd refers back no further. */
const MAX_LATE = 2 * 1024 * 1024;
/** UTF-16 units from which on no other codec is tried beside context: it may take long. */
const MAX_TRIED = 128 * 1024;
/** UTF-16 units that `auto` looks at of a text that is coded in slices. */
const SAMPLE_LENGTH = 32 * 1024;
const BROTLI_QUALITY = 5;
/** Decoded bytes up to which a body is not charged for what it expands to. */
const MAX_FREE = 16 * 1024;
/** Coded bytes up to which the tokens of a body are not looked up for that. */
const MAX_FREE_TOKENS = 512;
/** Bytes of metadata that are not charged, and what each of more takes as objects. */
const MAX_FREE_METADATA = 1024;
const MEMORY_OF_METADATA = 8;

export function createBodyCoder(options: BodyCoderOptions): BodyCoder {
  const { algorithms, encoding, limits, security, yield: letOthersRun } = options;
  const m2m = { limits, ...(security === undefined ? {} : { security }) };

  const largestOf = (coded: Uint8Array): number =>
    options.isBounded === false ? Infinity : largestExpansion(coded.length);

  const vocabulary = (): Encoding => {
    if (encoding === undefined) {
      throw new ProtocolError(
        'unsupported',
        'no encoding was negotiated, so there are no tokens in this session',
      );
    }
    return encoding;
  };

  /** No peer takes a body that expands beyond all measure, so that what would is stored. */
  const acceptable = (coded: Uint8Array, content: Uint8Array): Uint8Array =>
    content.length <= largestExpansion(coded.length) ? coded : storeBrotli(content);
  const packed = (content: Uint8Array): Uint8Array => acceptable(compressBrotli(content), content);
  const encodeM2M = (text: string, schema: Pick<M2MEncodeOptions, 'schema'> = {}): Uint8Array => {
    const bytes = encodeM2MBody(text, { ...m2m, ...schema });
    // A UTF-16 unit is at most three bytes of UTF-8.
    const mayExpand = text.length * 3 > EXPANSION_FLOOR && utf8Length(text) > largestExpansion(bytes.length);
    return mayExpand ? encodeM2MBody(text, { ...m2m, ...schema, compress: false }) : bytes;
  };

  /** Coded forms of a text; each decodes to exactly that text but for T1, which restores its meaning. */
  const encoders: Readonly<Record<Algorithm, (text: string) => Uint8Array>> = {
    NONE: encodeUtf8,
    TOKEN_NATIVE: (text) => vocabulary().encodeVarints(text),
    M2M: (text) => encodeM2M(text),
    BROTLI: (text) => packed(encodeUtf8(text)),
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
  /** In a session with a key nothing else protects a text, so M2M takes also what is no message. */
  const encodeProtected = (text: string) =>
    attempt(Algorithm.M2M)(text) ?? encodeM2M(text, { schema: 'custom' });
  const candidates: Candidate[] = algorithms
    .filter(
      (algorithm) => algorithm !== Algorithm.TOKEN && (security === undefined || algorithm === Algorithm.M2M),
    )
    .map((algorithm) => ({
      algorithm,
      encode: security === undefined ? attempt(algorithm) : encodeProtected,
      decodeIsExact: true,
    }));
  // T1 restores a meaning. Where nothing else was agreed, it carries what it gives back as it was.
  if (candidates.length === 0 && security === undefined && algorithms.includes(Algorithm.TOKEN)) {
    const exactToken = (text: string) => {
      const bytes = attempt(Algorithm.TOKEN)(text);
      return bytes !== undefined && decodeTokenBody(bytes, { limits }) === text ? bytes : undefined;
    };
    candidates.push({ algorithm: Algorithm.TOKEN, encode: exactToken, decodeIsExact: true });
  }
  const selector = createSelector(candidates);
  /**
   * A few words are their tokens, which is faster to try than to learn. Only the dictionary may be
   * smaller, and all of its patterns hold a quotation mark.
   */
  const selectShort = (content: string): Selection | undefined => {
    if (content.length > SHORT_TEXT || content.includes('"') || !hasTokens) return undefined;
    const bytes = vocabulary().encodeVarints(content);
    const tried = [{ algorithm: Algorithm.TOKEN_NATIVE, bytes: bytes.length, estimated: false }];
    if (bytes.length <= content.length) {
      return { algorithm: Algorithm.TOKEN_NATIVE, body: bytes, reason: { rule: 'heuristic', tried } };
    }
    // A single blank takes two bytes as a token.
    const isPlain = content.length === 1 && content < '\x80' && algorithms.includes(Algorithm.NONE);
    return isPlain
      ? { algorithm: Algorithm.NONE, body: encodeUtf8(content), reason: { rule: 'heuristic', tried } }
      : undefined;
  };
  const hasTokens = security === undefined && algorithms.includes(Algorithm.TOKEN_NATIVE);
  const select = (content: string): Selection => selectShort(content) ?? selector.select(content);
  let lastSelection: LastSelection | undefined;

  const context = security === undefined ? options.context : undefined;
  let deferredEncoder: DeferredEncoder | undefined;

  /** What the other codecs make of a text; `undefined` where it is too long to try, or none can carry it. */
  const stateless = (content: string): StatelessBody | undefined => {
    if (content.length >= MAX_TRIED) return undefined;
    try {
      const selection = select(content);
      return { codec: CODECS[selection.algorithm], bytes: selection.body, selection };
    } catch (error) {
      // Whoever sent it has had his answer: context carries what no codec does.
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  };

  const isDeferred = (
    content: string | Uint8Array,
    { algorithm = 'auto', secret }: CoderOptions,
  ): boolean => {
    if (context === undefined || secret === true) return false;
    if (algorithm === 'CONTEXT') return true;
    return algorithm === 'auto' && content.length >= MIN_LATE && content.length <= MAX_LATE;
  };

  /** What `auto` makes of bytes that may be no text; in a session with a key only M2M protects them. */
  const bytesAlgorithm =
    security === undefined ? BYTES_ALGORITHMS.find((name) => algorithms.includes(name)) : undefined;

  /** A message that is coded when it is written; `undefined` where it cannot wait for that. */
  const encodeDeferred = (content: string | Uint8Array, o: CoderOptions): CodedBody | undefined => {
    if (context === undefined || !isDeferred(content, o)) return undefined;
    const isText = typeof content === 'string';
    // What is kept as a base must not be changed by whoever sent it.
    const bytes = isText ? encodeUtf8(content) : new Uint8Array(content);
    if (bytes.length + MAX_DEFERRED_GROWTH > context.maxMessageSize) return undefined;
    const isForced = o.algorithm === 'CONTEXT';
    deferredEncoder ??= new DeferredEncoder((selection) => {
      lastSelection = selection;
    });
    return deferredEncoder.body({
      content: bytes,
      metadata: o.metadata,
      isBinary: !isText,
      stateless: () => {
        if (isForced) return undefined;
        if (isText) return stateless(content);
        const isPlain = bytesAlgorithm === Algorithm.NONE;
        return isPlain ? { codec: BodyCodec.PLAIN, bytes, selection: undefined } : undefined;
      },
    });
  };

  /** Bytes that token IDs stand for; 0 where they cannot be read, as whoever asks for their text is told. */
  const lengthOfTokens = (bytes: Uint8Array): number => {
    try {
      return vocabulary().byteLength(decodeTokenIds(bytes), { maxBytes: Infinity });
    } catch {
      return 0;
    }
  };

  const decodedLength = ({ codec, bytes, originalLength, content }: ReceivedBody): number => {
    if (content !== undefined) return content.length;
    const { length } = bytes;
    let decoded = originalLength ?? length;
    if (codec === BodyCodec.TOKEN_NATIVE) decoded = lengthOfTokens(bytes);
    // Without a link nothing states the length.
    else if (originalLength === undefined && EXPANDING.has(codec)) decoded = limits.maxMessageSize;
    return Math.max(length, Math.min(decoded, limits.maxMessageSize, largestExpansion(length)));
  };

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

  const encodeBytes = (content: Uint8Array, o: StatelessOptions): CodedBody => {
    const { algorithm = 'auto' } = o;
    if (algorithm !== 'auto') assertNegotiated(algorithm);
    switch (algorithm === 'auto' ? bytesAlgorithm : algorithm) {
      case Algorithm.NONE:
        return body(Algorithm.NONE, content, content.length, o);
      case Algorithm.BROTLI:
        return body(Algorithm.BROTLI, packed(content), content.length, o);
      default:
        return encodeText(textOf(content), o);
    }
  };

  const encodeText = (content: string, o: StatelessOptions): CodedBody => {
    const { algorithm = 'auto' } = o;
    if (algorithm === 'auto') {
      const selection = select(content);
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
      const selection = selector.select(content.slice(0, SAMPLE_LENGTH).replace(/[\ud800-\udbff]$/, ''));
      lastSelection = selection;
      return selection.algorithm;
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

    encode: (content, o) =>
      encodeDeferred(content, o) ??
      (typeof content === 'string'
        ? encodeText(content, withoutContext(o))
        : encodeBytes(content, withoutContext(o))),
    isDeferred,

    async encodeInSlices(content, options) {
      const o = withoutContext(options);
      assertWellFormed(content);
      const { algorithm = 'auto' } = o;
      const chosen = algorithm === 'auto' ? selectByBeginning(content) : algorithm;
      if (chosen === undefined) return encodeText(content, o);
      assertNegotiated(chosen);
      if (chosen === Algorithm.TOKEN_NATIVE) {
        const slices = vocabulary().encodeSlices(content);
        let slice = slices.next();
        for (; !slice.done; slice = slices.next()) await letOthersRun();
        return body(chosen, encodeTokenIds(slice.value), utf8Length(content), o);
      }
      if (chosen === Algorithm.BROTLI) {
        const bytes = encodeUtf8(content);
        const coded = await platform.brotliCompressLater(bytes, BROTLI_QUALITY);
        return body(chosen, acceptable(coded, bytes), bytes.length, o);
      }
      try {
        return encodeText(content, { ...o, algorithm: chosen });
      } catch (error) {
        // The end of a text may not keep what its beginning promised.
        if (algorithm === 'auto' && isSkipped(error)) return encodeText(content, o);
        throw error;
      }
    },

    encodeNothing: (metadata) =>
      security === undefined
        ? plainBody(new Uint8Array(0), metadata)
        : body(Algorithm.M2M, encodeProtected(''), 0, { metadata }),

    encodeTokens(ids, o) {
      assertNegotiated(Algorithm.TOKEN_NATIVE);
      const known = ids instanceof Uint32Array ? ids : Uint32Array.from(ids);
      const length = vocabulary().byteLength(known);
      return body(Algorithm.TOKEN_NATIVE, encodeTokenIds(known), length, o);
    },

    decodedLength,

    memoryOf(received) {
      const { codec, bytes, originalLength, content, metadata } = received;
      // Most messages by far.
      const stated = content?.length ?? originalLength ?? bytes.length;
      if (stated <= MAX_FREE_TOKENS && metadata === undefined) return 0;
      // No token is longer than 128 bytes.
      const isFree = codec === BodyCodec.TOKEN_NATIVE && bytes.length <= MAX_FREE_TOKENS;
      const decoded = isFree ? 0 : decodedLength(received);
      const described = metadata === undefined || metadata.length <= MAX_FREE_METADATA ? 0 : metadata.length;
      return (decoded <= MAX_FREE ? 0 : 2 * decoded) + MEMORY_OF_METADATA * described;
    },

    decode({ codec, bytes, originalLength, content, opened }) {
      // Later messages are decoded with it, so nobody else gets it into his hands.
      if (content !== undefined) return content.slice();
      switch (codec) {
        case BodyCodec.PLAIN:
        case BodyCodec.AVP:
          return bytes;
        case BodyCodec.TOKEN_NATIVE:
          return vocabulary().decodeBytes(decodeTokenIds(bytes), { maxBytes: limits.maxMessageSize });
        case BodyCodec.M2M: {
          const within = bounded(limits, originalLength, bytes, largestOf(bytes));
          const message =
            opened === undefined
              ? decodeM2MBody(bytes, { ...m2m, limits: within })
              : decodeOpenedM2MBody(bytes, opened, within);
          return stated(message.bytes, originalLength);
        }
        case BodyCodec.BROTLI:
          return stated(
            decompressBrotli(bytes, bounded(limits, originalLength, bytes, largestOf(bytes))),
            originalLength,
          );
        case BodyCodec.TOKEN:
          return encodeUtf8(
            decodeTokenBody(bytes, { limits: bounded(limits, originalLength, bytes, largestOf(bytes)) }),
          );
        case BodyCodec.DICTIONARY:
          return stated(
            decodeDictionaryBody(bytes, bounded(limits, originalLength, bytes, largestOf(bytes))),
            originalLength,
          );
        default:
          throw new ProtocolError('unsupported', `bodies in codec ${codec} are not decoded here`);
      }
    },

    tokens: (received) => decodeTokenIds(received.bytes),
    decodeTokens: (ids) => vocabulary().decode(ids, { maxBytes: limits.maxMessageSize }),
    header: (received) => readM2MBodyHeader(received.bytes),
    tensor: (received) => decodeAvp(received.bytes, { maxSize: limits.maxTransferSize }),
    parse: (text, onValues) => parseJson(text, limits, onValues),
    createPartText: () => vocabulary().createDecoder({ maxBytes: limits.maxMessageSize }),
  };
}

const CODECS = {
  NONE: BodyCodec.PLAIN,
  TOKEN_NATIVE: BodyCodec.TOKEN_NATIVE,
  M2M: BodyCodec.M2M,
  BROTLI: BodyCodec.BROTLI,
  TOKEN: BodyCodec.TOKEN,
  DICTIONARY: BodyCodec.DICTIONARY,
} as const satisfies Record<Algorithm, BodyCodec>;

/** Codecs whose bodies may expand to any length. */
const EXPANDING: ReadonlySet<BodyCodec> = new Set([
  BodyCodec.M2M,
  BodyCodec.BROTLI,
  BodyCodec.TOKEN,
  BodyCodec.DICTIONARY,
]);

/** Algorithms that carry any bytes, in order of preference. */
const BYTES_ALGORITHMS = [Algorithm.NONE, Algorithm.BROTLI] as const;

/** Refusals of one codec that leave the others a chance. */
const SKIPPED: ReadonlySet<string> = new Set([
  'unrepresentable',
  'bad_json',
  'json_too_deep',
  'string_too_long',
  'array_too_long',
  'too_many_values',
]);

function isSkipped(error: unknown): boolean {
  return error instanceof ProtocolError && SKIPPED.has(error.code);
}

/** Options of a message that is not coded in context. @throws {ProtocolError} where it was asked to be. */
function withoutContext({ algorithm, ...rest }: CoderOptions): StatelessOptions {
  if (algorithm !== 'CONTEXT') return { algorithm, ...rest };
  if (rest.secret) throw new ProtocolError('invalid_argument', 'a secret message travels in no context');
  throw new ProtocolError(
    'unsupported',
    'context coding was not negotiated, or not for messages of this size',
  );
}

function textOf(content: Uint8Array): string {
  try {
    return decodeUtf8(content);
  } catch (cause) {
    throw new ProtocolError('unrepresentable', 'bytes that are no text need NONE or BROTLI', { cause });
  }
}

/** A body may expand as far as its coded bytes allow, and not beyond the length that it states. */
function bounded(
  limits: Limits,
  originalLength: number | undefined,
  coded: Uint8Array,
  largest: number,
): Limits {
  // A decompressor works off what its window holds before it notices that there is too much of it.
  if (originalLength !== undefined && originalLength > largest) {
    throw new ProtocolError(
      'decompressed_too_large',
      `${coded.length} coded bytes may expand to ${largest}, and state ${originalLength}`,
    );
  }
  const most = Math.min(originalLength ?? Infinity, largest);
  // The same limit bounds the coded bytes, which may be more than the content of a short message.
  return { ...limits, maxMessageSize: Math.min(limits.maxMessageSize, Math.max(1, most, coded.length)) };
}

function stated(content: Uint8Array, originalLength: number | undefined): Uint8Array {
  if (originalLength === undefined || content.length === originalLength) return content;
  throw new ProtocolError('bad_frame', `a body states ${originalLength} bytes and holds ${content.length}`);
}

function utf8LengthOf(content: string, selection: Selection): number {
  return selection.algorithm === Algorithm.NONE ? selection.body.length : utf8Length(content);
}
