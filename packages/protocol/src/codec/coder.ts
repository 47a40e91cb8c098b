import { copyBytes } from '../base/bytes.js';
import type { Algorithm } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { ContentOptions } from '../base/json.js';
import type { Limits } from '../base/limits.js';
import type { Encoding } from '../tokenizer/encoding.js';
import type { LastSelection } from './auto/deferred.js';
import type { AvpMessage } from './avp/frame.js';
import type { CodedBody, ReceivedBody } from './body.js';
import type { M2MHeader } from './m2m/header.js';
import type { M2MSecurity } from './m2m/security.js';

/**
 * Converts between an application's content and coded bodies, for one session: with the negotiated codecs,
 * the session's vocabulary and its limits.
 */
export interface BodyCoder {
  readonly limits: Limits;
  /** How `auto` coded the last message, and why; `undefined` before the first. */
  readonly lastSelection: LastSelection | undefined;

  /** The codecs that `auto` chooses from now on. */
  use(codecs: UsableCodecs): void;
  /** Server: forgets what `auto` has learned and chosen. */
  rest?(): void;
  /** Loads the code that `algorithm` needs in this session; `undefined` if it is there. */
  load(algorithm: CoderOptions['algorithm']): Promise<void> | undefined;

  /**
   * Codes a message, or returns a body that is coded when it is written.
   *
   * @throws {ProtocolError} `unsupported` for an algorithm that was not negotiated, `unrepresentable`,
   * `lone_surrogate`, and the codes of exceeded limits.
   */
  encode(content: string | Uint8Array, options: CoderOptions): CodedBody;
  /**
   * Like `encode`, but lets the event loop run in between: tokens are encoded in slices, and Brotli runs
   * beside the event loop if the platform supports that. `auto` decides by the beginning of the text.
   */
  encodeInSlices(content: string, options: CoderOptions): Promise<CodedBody>;
  /** Whether `encode` leaves a message to be coded in context when it is written; that needs no slices. */
  isDeferred(content: string | Uint8Array, options: CoderOptions): boolean;
  /** A body with metadata only. */
  encodeNothing(metadata: Uint8Array): CodedBody;
  /**
   * Codes token IDs as they are.
   * @throws {ProtocolError} `unsupported` if TOKEN_NATIVE was not negotiated.
   */
  encodeTokens(ids: readonly number[] | Uint32Array, options: CoderOptions): CodedBody;

  /**
   * Bytes of memory that a received body takes once its content is decoded, as bytes and as text. Small
   * bodies count 0: windows and streams limit their number. Decodes nothing.
   */
  memoryOf(body: ReceivedBody): number;
  /** Most bytes that the content of a received body may have. Decodes nothing. */
  decodedLength(body: ReceivedBody): number;
  /** The content, byte for byte. @throws {ProtocolError} what the codec throws. */
  decode(body: ReceivedBody): Uint8Array;
  /** The token IDs of a body in TOKEN_NATIVE. */
  tokens(body: ReceivedBody): Uint32Array;
  /** The header of a body in M2M. */
  header(body: ReceivedBody): M2MHeader;
  /** The tensor of a body in AVP. */
  tensor(body: ReceivedBody): AvpMessage;
  /** See `parseContent`. */
  parse<T>(text: string, options: ContentOptions): T;
  /**
   * Decodes the token parts of one stream; a character may be split between two of them.
   *
   * @param held the bytes of a character that parts before the first one ended in.
   */
  createPartText(held?: Uint8Array): PartText;
}

/** Decodes the text of token parts; a character may be split between two parts. */
export interface PartText {
  /** Bytes that the tokens so far stand for. */
  readonly length: number;
  push(ids: Uint32Array): string;
  /** @throws {ProtocolError} `bad_utf8` if the text ends inside a character. */
  end(): void;
}

/** The codecs that a session may use now: negotiated, and loaded at both ends. */
export interface UsableCodecs {
  readonly algorithms: readonly Algorithm[];
  readonly hasContext: boolean;
  /** The loaded vocabulary of the negotiated encoding. */
  readonly encoding: Encoding | undefined;
}

export interface CoderOptions {
  /** @default 'auto' */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  /** See `SendOptions.compressAlone`. @default false */
  readonly compressAlone?: boolean | undefined;
  readonly metadata?: Uint8Array | undefined;
  /**
   * The bytes of the content do not change any more, so a body may have them without a copy.
   *
   * @default false: they are memory of the application, which may use it again as soon as the call returns
   */
  readonly isOwned?: boolean | undefined;
}

/** The bytes of a content for a body that has them as they are. */
export function bytesToKeep(content: Uint8Array, { isOwned }: CoderOptions): Uint8Array {
  return isOwned ? content : copyBytes(content);
}

/** @throws {ProtocolError} `unsupported`. */
export function assertNegotiated(algorithm: Algorithm, algorithms: readonly Algorithm[]): void {
  if (algorithms.includes(algorithm)) return;
  throw new ProtocolError('unsupported', `${algorithm} was not negotiated; ${algorithms.join(', ')} were`);
}

/** Codec settings of a session. */
export interface CodecContext {
  /** The loaded vocabulary of the negotiated encoding. */
  readonly encoding: Encoding | undefined;
  readonly limits: Limits;
  /** Protection that the session's M2M frames carry and require. */
  readonly security: M2MSecurity | undefined;
  /** Without a link: a text tells its codec by its prefix, so plain content must not begin with one. @default false */
  readonly isPrefixed?: boolean | undefined;
}

export interface BodyCoderOptions extends CodecContext {
  /** The negotiated algorithms. */
  readonly algorithms: readonly Algorithm[];
  /** The codecs that `auto` chooses from at first. @default all negotiated ones */
  readonly usable?: UsableCodecs | undefined;
  /**
   * Loads the code that an algorithm needs; `undefined` if it is there.
   *
   * @default everything is loaded
   */
  readonly load?: ((algorithm: Algorithm | 'CONTEXT') => Promise<void> | undefined) | undefined;
  /** Largest message that the peer accepts, in bytes, in any codec. @default not known */
  readonly maxMessageSize?: number | undefined;
  /** Set if context coding was negotiated. */
  readonly context?: ContextCoderOptions | undefined;
  /** Lets the event loop run. */
  readonly yield: () => Promise<void>;
  /** Refuse bodies that expand further than a session allows. @default true */
  readonly isBounded?: boolean | undefined;
}

export interface ContextCoderOptions {
  /** Largest message that the peer accepts, in bytes, in any codec. */
  readonly maxMessageSize: number;
}
