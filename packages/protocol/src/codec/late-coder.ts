import { Algorithm } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { type ContentOptions, parseContent } from '../base/json.js';
import type { Limits } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import type { LastSelection } from './auto/deferred.js';
import type { AvpMessage } from './avp/frame.js';
import { BodyCodec, type CodedBody, plainBody, type ReceivedBody } from './body.js';
import { memoryOf } from './body-memory.js';
import {
  assertNegotiated,
  type BodyCoder,
  bytesToKeep,
  type CoderOptions,
  type PartText,
  type UsableCodecs,
} from './coder.js';
import type { M2MHeader } from './m2m/header.js';

export interface LateCoderOptions {
  /** The negotiated algorithms. */
  readonly algorithms: readonly Algorithm[];
  readonly limits: Limits;
  /** The coder of the session; `undefined` until its code is loaded. */
  readonly create: () => BodyCoder | undefined;
  /** Loads the code that a codec needs; `undefined` if it is there. */
  readonly load: (algorithm: Algorithm | 'CONTEXT') => Promise<void> | undefined;
}

/**
 * The coder of a session that begins before the code of its codecs is loaded. Until then it sends content as it is,
 * and it receives nothing else: the core holds bodies in other codecs.
 */
export class LateCoder implements BodyCoder {
  readonly #options: LateCoderOptions;
  #inner: BodyCoder | undefined;

  constructor(options: LateCoderOptions) {
    this.#options = options;
  }

  get limits(): Limits {
    return this.#options.limits;
  }
  get lastSelection(): LastSelection | undefined {
    return this.#inner?.lastSelection;
  }

  use(codecs: UsableCodecs): void {
    if (this.#inner === undefined) this.#inner = this.#options.create();
    else this.#inner.use(codecs);
  }

  load(algorithm: CoderOptions['algorithm']): Promise<void> | undefined {
    return algorithm === undefined || algorithm === 'auto' ? undefined : this.#options.load(algorithm);
  }

  encode(content: string | Uint8Array, options: CoderOptions): CodedBody {
    if (this.#inner !== undefined) return this.#inner.encode(content, options);
    const { algorithm = 'auto', compressAlone = false, metadata } = options;
    if (algorithm !== 'auto' && algorithm !== Algorithm.NONE) {
      this.#assertNegotiated(algorithm);
      return this.#loaded.encode(content, options);
    }
    const bytes = typeof content === 'string' ? encodeUtf8(content) : bytesToKeep(content, options);
    return { ...plainBody(bytes, metadata), secret: compressAlone };
  }

  async encodeInSlices(content: string, options: CoderOptions): Promise<CodedBody> {
    return this.#inner === undefined
      ? this.encode(content, options)
      : await this.#inner.encodeInSlices(content, options);
  }

  isDeferred(content: string | Uint8Array, options: CoderOptions): boolean {
    return this.#inner?.isDeferred(content, options) ?? false;
  }

  encodeNothing(metadata: Uint8Array): CodedBody {
    return this.#inner?.encodeNothing(metadata) ?? plainBody(new Uint8Array(0), metadata);
  }

  encodeTokens(ids: readonly number[] | Uint32Array, options: CoderOptions): CodedBody {
    this.#assertNegotiated(Algorithm.TOKEN_NATIVE);
    return this.#loaded.encodeTokens(ids, options);
  }

  memoryOf(body: ReceivedBody): number {
    return this.#inner?.memoryOf(body) ?? memoryOf(body, this.limits, () => 0);
  }

  decodedLength(body: ReceivedBody): number {
    return this.#inner?.decodedLength(body) ?? body.content?.length ?? body.bytes.length;
  }

  decode(body: ReceivedBody): Uint8Array {
    if (this.#inner !== undefined) return this.#inner.decode(body);
    return body.codec === BodyCodec.PLAIN ? body.bytes : this.#loaded.decode(body);
  }

  tokens(body: ReceivedBody): Uint32Array {
    return this.#loaded.tokens(body);
  }

  header(body: ReceivedBody): M2MHeader {
    return this.#loaded.header(body);
  }

  tensor(body: ReceivedBody): AvpMessage {
    return this.#loaded.tensor(body);
  }

  parse<T>(text: string, options: ContentOptions): T {
    return parseContent(text, this.limits, options);
  }

  createPartText(held?: Uint8Array): PartText {
    return this.#loaded.createPartText(held);
  }

  /** @throws {ProtocolError} `unsupported`. Context that was negotiated is loaded before it is used. */
  #assertNegotiated(algorithm: Algorithm | 'CONTEXT'): void {
    if (algorithm !== 'CONTEXT') assertNegotiated(algorithm, this.#options.algorithms);
    else throw new ProtocolError('unsupported', 'context coding was not negotiated');
  }

  /** @throws {ProtocolError} `codec_not_loaded`. */
  get #loaded(): BodyCoder {
    if (this.#inner !== undefined) return this.#inner;
    throw new ProtocolError('codec_not_loaded', 'the code of this codec is not loaded');
  }
}
