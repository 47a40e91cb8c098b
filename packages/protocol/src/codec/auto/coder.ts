import { codecs } from '#codecs';
import { platform } from '#platform';
import { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { prefixOf } from '../../base/frame-kind.js';
import { type ContentOptions, parseContent } from '../../base/json.js';
import type { Limits } from '../../base/limits.js';
import { assertWellFormed, decodeUtf8, encodeUtf8, utf8Length } from '../../base/text.js';
import { decodeTokenIds, encodeTokenIds } from '../../tokenizer/varints.js';
import { CODEC_OF } from '../algorithms.js';
import type { AvpMessage } from '../avp/frame.js';
import { BodyCodec, type CodedBody, MAX_DEFERRED_GROWTH, plainBody, type ReceivedBody } from '../body.js';
import { decodedLength, memoryOf } from '../body-memory.js';
import {
  assertNegotiated,
  type BodyCoder,
  type BodyCoderOptions,
  bytesToKeep,
  type CoderOptions,
  type ContextCoderOptions,
  type PartText,
  type UsableCodecs,
} from '../coder.js';
import type { M2MHeader } from '../m2m/header.js';
import { decodeTokenBody } from '../text/token.js';
import {
  acceptable,
  candidatesOf,
  encodeAs,
  encodeProtected,
  isSkipped,
  pack,
  vocabularyOf,
} from './codecs.js';
import { decodeBody, lengthOfTokens } from './decoding.js';
import { DeferredEncoder, type LastSelection, type StatelessBody } from './deferred.js';
import { createSelector, type Selection, type Selector } from './select.js';

interface StatelessOptions extends CoderOptions {
  readonly algorithm?: Algorithm | 'auto' | undefined;
}

/** UTF-16 units up to which a text without quotation marks is sent as its tokens without a comparison. */
const SHORT_TEXT = 96;
/** Bytes from which a message is compared with earlier ones: a few tokens are sent as such. */
const MIN_DEFERRED = 32;
/** Coding more in context would block the event loop for too long. */
const MAX_DEFERRED = 8 * 1024 * 1024;
/** UTF-16 units from which no other codec is tried beside context, as that may take long. */
const MAX_TRIED = 128 * 1024;
/** UTF-16 units that `auto` examines of a text that is coded in slices. */
const SAMPLE_LENGTH = 32 * 1024;
const BROTLI_QUALITY = 5;

export function createBodyCoder(options: BodyCoderOptions): BodyCoder {
  return new SessionCoder(options);
}

class SessionCoder implements BodyCoder {
  readonly limits: Limits;
  lastSelection: LastSelection | undefined;
  #options: BodyCoderOptions;
  /** Set if messages may be coded in context. */
  readonly #context: ContextCoderOptions | undefined;
  /** `auto` may code messages in context now. */
  #usesContext = false;
  /** The codecs that `auto` chooses from. */
  #usable: readonly Algorithm[] = [];
  /** Created with the first message that is coded by choice. */
  #selector: Selector | undefined;
  #hasTokens = false;
  /** Used by `auto` for bytes that may not be text; `undefined` with a key, as only M2M protects them. */
  #bytesAlgorithm: (typeof BYTES_ALGORITHMS)[number] | undefined;
  #deferred: DeferredEncoder | undefined;

  constructor(options: BodyCoderOptions) {
    const { algorithms, encoding, limits, security, context } = options;
    this.limits = limits;
    this.#options = options;
    this.#context = security === undefined ? context : undefined;
    this.use(options.usable ?? { algorithms, encoding, hasContext: context !== undefined });
  }

  use({ algorithms, hasContext, encoding }: UsableCodecs): void {
    if (encoding !== this.#options.encoding) this.#options = { ...this.#options, encoding };
    const isSecured = this.#options.security !== undefined;
    this.#usesContext = hasContext;
    this.#usable = algorithms;
    this.#selector = undefined;
    this.#hasTokens = !isSecured && algorithms.includes(Algorithm.TOKEN_NATIVE);
    this.#bytesAlgorithm = isSecured ? undefined : BYTES_ALGORITHMS.find((name) => algorithms.includes(name));
  }

  rest(): void {
    this.lastSelection = undefined;
    this.#selector = undefined;
    this.#deferred = undefined;
  }

  load(algorithm: CoderOptions['algorithm']): Promise<void> | undefined {
    return algorithm === undefined || algorithm === 'auto' ? undefined : this.#options.load?.(algorithm);
  }

  // --- encoding

  encode(content: string | Uint8Array, options: CoderOptions): CodedBody {
    const deferred = this.#defer(content, options);
    if (deferred !== undefined) return deferred;
    const stateless = withoutContext(options);
    const coded =
      typeof content === 'string'
        ? this.#encodeText(content, stateless)
        : this.#encodeBytes(content, stateless);
    return this.#withinLimit(coded, content, stateless);
  }

  async encodeInSlices(content: string, options: CoderOptions): Promise<CodedBody> {
    const stateless = withoutContext(options);
    return this.#withinLimit(await this.#encodeInSlices(content, stateless), content, stateless);
  }

  /** A codec may make a body longer than its content. If only that is within the limit, it goes uncoded. */
  #withinLimit(coded: CodedBody, content: string | Uint8Array, options: StatelessOptions): CodedBody {
    const { algorithms, security, isPrefixed, maxMessageSize = Infinity } = this.#options;
    if (Math.max(coded.bytes.length, coded.originalLength) <= maxMessageSize) return coded;
    const mayBePlain = algorithms.includes(Algorithm.NONE) && security === undefined && isPrefixed !== true;
    const bytes = typeof content === 'string' ? encodeUtf8(content) : content;
    if (!mayBePlain || bytes.length > maxMessageSize) return coded;
    const isOwned = options.isOwned || typeof content === 'string';
    const { lastSelection } = this;
    if ((options.algorithm ?? 'auto') === 'auto' && lastSelection !== undefined)
      this.lastSelection = { ...lastSelection, algorithm: Algorithm.NONE, body: bytes };
    return this.#encodeBytes(bytes, { ...options, isOwned, algorithm: Algorithm.NONE });
  }

  async #encodeInSlices(content: string, stateless: StatelessOptions): Promise<CodedBody> {
    assertWellFormed(content);
    const { algorithm = 'auto' } = stateless;
    const chosen = algorithm === 'auto' ? this.#selectByBeginning(content) : algorithm;
    if (chosen === undefined) return this.#encodeText(content, stateless);
    this.#assertNegotiated(chosen);
    if (chosen === Algorithm.TOKEN_NATIVE) {
      const slices = vocabularyOf(this.#options).encodeSlices(content);
      let slice = slices.next();
      for (; !slice.done; slice = slices.next()) await this.#options.yield();
      return bodyOf(chosen, encodeTokenIds(slice.value), utf8Length(content), stateless);
    }
    if (chosen === Algorithm.BROTLI) {
      const bytes = encodeUtf8(content);
      const coded = await platform.brotliCompressLater(bytes, BROTLI_QUALITY);
      return bodyOf(chosen, acceptable(coded, bytes), bytes.length, stateless);
    }
    try {
      return this.#encodeText(content, { ...stateless, algorithm: chosen });
    } catch (error) {
      // The codec was chosen by the beginning of the text, and may not be able to carry the rest.
      if (algorithm === 'auto' && isSkipped(error)) return this.#encodeText(content, stateless);
      throw error;
    }
  }

  isDeferred(content: string | Uint8Array, { algorithm = 'auto', compressAlone }: CoderOptions): boolean {
    if (this.#context === undefined || compressAlone === true) return false;
    if (algorithm === 'CONTEXT') return true;
    return (
      this.#usesContext &&
      algorithm === 'auto' &&
      content.length >= MIN_DEFERRED &&
      content.length <= MAX_DEFERRED
    );
  }

  encodeNothing(metadata: Uint8Array): CodedBody {
    return this.#options.security === undefined
      ? plainBody(new Uint8Array(0), metadata)
      : bodyOf(Algorithm.M2M, encodeProtected('', this.#options), 0, { metadata });
  }

  encodeTokens(ids: readonly number[] | Uint32Array, options: CoderOptions): CodedBody {
    this.#assertNegotiated(Algorithm.TOKEN_NATIVE);
    const known = ids instanceof Uint32Array ? ids : Uint32Array.from(ids);
    const length = vocabularyOf(this.#options).byteLength(known);
    return bodyOf(Algorithm.TOKEN_NATIVE, encodeTokenIds(known), length, options);
  }

  #encodeText(content: string, options: StatelessOptions): CodedBody {
    const { algorithm = 'auto' } = options;
    if (algorithm === 'auto') {
      const selection = this.#select(content);
      this.lastSelection = selection;
      return bodyOf(selection.algorithm, selection.body, utf8LengthOf(content, selection), options);
    }
    this.#assertNegotiated(algorithm);
    const bytes = encodeAs(algorithm, content, this.#options);
    if (algorithm === Algorithm.NONE) return bodyOf(algorithm, bytes, bytes.length, options);
    // T1 writes out the defaults that a request leaves out, so the content that arrives may be longer.
    const decoded = algorithm === Algorithm.TOKEN ? decodeTokenBody(bytes, { limits: this.limits }) : content;
    return bodyOf(algorithm, bytes, utf8Length(decoded), options);
  }

  #encodeBytes(content: Uint8Array, options: StatelessOptions): CodedBody {
    const { algorithm = 'auto' } = options;
    if (algorithm !== 'auto') this.#assertNegotiated(algorithm);
    switch (algorithm === 'auto' ? this.#algorithmOf(content) : algorithm) {
      case Algorithm.NONE:
        return bodyOf(Algorithm.NONE, bytesToKeep(content, options), content.length, options);
      case Algorithm.BROTLI:
        return bodyOf(Algorithm.BROTLI, pack(content), content.length, options);
      default:
        return this.#encodeText(textOf(content), options);
    }
  }

  /** The codec that `auto` uses for bytes; `undefined` for bytes that have to be coded as a text. */
  #algorithmOf(content: Uint8Array): Algorithm | undefined {
    const chosen = this.#bytesAlgorithm;
    if (chosen !== Algorithm.NONE || this.#options.isPrefixed !== true) return chosen;
    const text = textIn(content);
    if (text !== undefined && prefixOf(text) === undefined) return chosen;
    if (this.#usable.includes(Algorithm.BROTLI)) return Algorithm.BROTLI;
    // Bytes that are not text have no other codec, and the session says what they need.
    return text === undefined ? chosen : undefined;
  }

  /** A body that is coded when it is written; `undefined` if the message has to be coded now. */
  #defer(content: string | Uint8Array, options: CoderOptions): CodedBody | undefined {
    if (this.#context === undefined || !this.isDeferred(content, options)) return undefined;
    const isText = typeof content === 'string';
    const bytes = isText ? encodeUtf8(content) : bytesToKeep(content, options);
    if (bytes.length + MAX_DEFERRED_GROWTH > this.#context.maxMessageSize) return undefined;
    const isForced = options.algorithm === 'CONTEXT';
    this.#deferred ??= new DeferredEncoder((selection) => {
      this.lastSelection = selection;
    });
    return this.#deferred.body({
      content: bytes,
      metadata: options.metadata,
      isBinary: !isText,
      stateless: () => {
        if (isForced) return undefined;
        if (isText) return this.#stateless(content);
        const isPlain = this.#bytesAlgorithm === Algorithm.NONE;
        return isPlain ? { codec: BodyCodec.PLAIN, bytes, selection: undefined } : undefined;
      },
    });
  }

  /** The text in the best other codec; `undefined` if it is too long to try, or no codec can carry it. */
  #stateless(content: string): StatelessBody | undefined {
    if (content.length >= MAX_TRIED) return undefined;
    try {
      const selection = this.#select(content);
      return { codec: CODEC_OF[selection.algorithm], bytes: selection.body, selection };
    } catch (error) {
      // Context coding can carry any content.
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  }

  // --- choosing a codec

  get #learned(): Selector {
    this.#selector ??= createSelector(candidatesOf(this.#usable, this.#options));
    return this.#selector;
  }

  #select(content: string): Selection {
    try {
      return this.#selectShort(content) ?? this.#learned.select(content);
    } catch (error) {
      // No codec carries half of a surrogate pair, so the reason is not that of one of them.
      assertWellFormed(content);
      throw error;
    }
  }

  /**
   * Codes a few words as their tokens, as trying that is faster than learning. Only the dictionary might be
   * smaller, and all of its patterns contain a quotation mark.
   */
  #selectShort(content: string): Selection | undefined {
    if (content.length > SHORT_TEXT || content.includes('"') || !this.#hasTokens) return undefined;
    const bytes = vocabularyOf(this.#options).encodeVarints(content);
    const tried = [{ algorithm: Algorithm.TOKEN_NATIVE, bytes: bytes.length, estimated: false }];
    if (bytes.length <= content.length) {
      return { algorithm: Algorithm.TOKEN_NATIVE, body: bytes, reason: { rule: 'heuristic', tried } };
    }
    // A single blank takes two bytes as a token.
    const isPlain =
      content.length === 1 && content < '\x80' && this.#options.algorithms.includes(Algorithm.NONE);
    return isPlain
      ? { algorithm: Algorithm.NONE, body: encodeUtf8(content), reason: { rule: 'heuristic', tried } }
      : undefined;
  }

  /** The codec that `auto` chooses for the beginning of a long text; `undefined` if no codec can carry that. */
  #selectByBeginning(content: string): Algorithm | undefined {
    try {
      // The sample must not end with half a character.
      const sample = content.slice(0, SAMPLE_LENGTH).replace(/[\ud800-\udbff]$/, '');
      const selection = this.#learned.select(sample);
      this.lastSelection = selection;
      return selection.algorithm;
    } catch (error) {
      if (isSkipped(error)) return undefined;
      throw error;
    }
  }

  #assertNegotiated(algorithm: Algorithm): void {
    assertNegotiated(algorithm, this.#options.algorithms);
  }

  // --- decoding

  memoryOf(body: ReceivedBody): number {
    return memoryOf(body, this.limits, (bytes) => lengthOfTokens(bytes, this.#options));
  }

  decodedLength(body: ReceivedBody): number {
    return decodedLength(body, this.limits, (bytes) => lengthOfTokens(bytes, this.#options));
  }

  decode(body: ReceivedBody): Uint8Array {
    return decodeBody(body, this.#options, this.#options.isBounded !== false);
  }

  tokens(body: ReceivedBody): Uint32Array {
    return decodeTokenIds(body.bytes);
  }

  header(body: ReceivedBody): M2MHeader {
    return codecs.m2m.get().readM2MBodyHeader(body.bytes);
  }

  tensor(body: ReceivedBody): AvpMessage {
    return codecs.avp.get().decodeAvp(body.bytes, { maxSize: this.limits.maxTransferSize });
  }

  parse<T>(text: string, options: ContentOptions): T {
    return parseContent(text, this.limits, options);
  }

  createPartText(held?: Uint8Array): PartText {
    return vocabularyOf(this.#options).createDecoder({ maxBytes: this.limits.maxMessageSize, held });
  }
}

/** Algorithms that carry any bytes, in order of preference. */
const BYTES_ALGORITHMS = [Algorithm.NONE, Algorithm.BROTLI] as const;

function bodyOf(
  algorithm: Algorithm,
  bytes: Uint8Array,
  originalLength: number,
  { compressAlone = false, metadata }: CoderOptions,
): CodedBody {
  return { codec: CODEC_OF[algorithm], bytes, originalLength, secret: compressAlone, metadata };
}

/**
 * Options of a message that is not coded in context.
 * @throws {ProtocolError} if the caller asked for context.
 */
function withoutContext({ algorithm, ...rest }: CoderOptions): StatelessOptions {
  if (algorithm !== 'CONTEXT') return { algorithm, ...rest };
  if (rest.compressAlone)
    throw new ProtocolError('invalid_argument', 'a message compressed alone has no context');
  throw new ProtocolError(
    'unsupported',
    'context coding was not negotiated, or not for messages of this size',
  );
}

/** `undefined` for bytes that are not text. */
function textIn(content: Uint8Array): string | undefined {
  try {
    return decodeUtf8(content);
  } catch {
    return undefined;
  }
}

function textOf(content: Uint8Array): string {
  try {
    return decodeUtf8(content);
  } catch (cause) {
    throw new ProtocolError('unrepresentable', 'bytes that are not text need NONE or BROTLI', { cause });
  }
}

function utf8LengthOf(content: string, selection: Selection): number {
  return selection.algorithm === Algorithm.NONE ? selection.body.length : utf8Length(content);
}
