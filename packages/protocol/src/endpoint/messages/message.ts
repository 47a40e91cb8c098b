import type { Reservation, SessionMemory } from '../../base/memory.js';
import { decodeUtf8 } from '../../base/text.js';
import { type BodyForm, formOf } from '../../codec/algorithms.js';
import type { BodyCoder } from '../../codec/auto/coder.js';
import { BodyCodec, type ReceivedBody, type SecurityStatus } from '../../codec/body.js';
import type { M2MHeader } from '../../codec/m2m/header.js';
import type { AssembledTensor, ReceivedTensor } from '../tensors/tensor.js';
import { decodeMetadata, type Metadata } from './metadata.js';
import { blame } from './undecodable.js';

/**
 * A message or a part of a reply as it was received. Nothing is decoded before it is asked for, and
 * everything at most once; what cannot be decoded throws a `ProtocolError` where it is asked for.
 */
export interface Message {
  /** The agent that sent it, as the server has authenticated it; `undefined` where the peer itself did. */
  readonly from: string | undefined;
  /** How it travelled; `CONTEXT` where it was coded against earlier messages, `AVP` for a tensor. */
  readonly algorithm: BodyForm;
  /** The content, byte for byte as it was sent; the elements of a tensor. */
  readonly bytes: Uint8Array;
  /** The content as text. @throws {ProtocolError} `bad_utf8` where it is none. */
  readonly text: string;
  /** Token IDs in the negotiated encoding, where the message travelled as such. */
  readonly tokens: Uint32Array | undefined;
  /** The routing header of an M2M message, read without decompressing its payload. */
  readonly header: M2MHeader | undefined;
  /** The tensor of an AVP message. */
  readonly tensor: ReceivedTensor | undefined;
  readonly metadata: Metadata;
  /**
   * What a scan of the content found: this end's own, or what the peer states in `m2m.v1.json`; `undefined`
   * where nobody looked.
   */
  readonly securityStatus: SecurityStatus | undefined;
  /** Bytes of the coded body on the wire. */
  readonly codedLength: number;
  /** The content parsed as JSON, within the limits; nothing proves it to be a `T`. */
  json<T = unknown>(): T;
}

/** Decodes the text of token parts, where a character may be split between two of them. */
export interface PartText {
  push(ids: Uint32Array): string;
  /** @throws {ProtocolError} `bad_utf8` if the text ends inside a character. */
  end(): void;
}

/**
 * @param partText given for parts of a stream; takes the place of decoding the part alone.
 * @param onText told when the text is asked for.
 */
export function createMessage(
  body: ReceivedBody,
  coder: BodyCoder,
  partText?: PartText,
  onText?: () => void,
): ReceivedMessage {
  return new ReceivedMessage(body, coder, partText, onText);
}

/** Values of a JSON document that are not charged, and what each of more takes as an object or an entry of one. */
const MIN_CHARGED_VALUES = 1024;
const MEMORY_OF_VALUE = 64;

/** The session that a received message belongs to. */
export interface MessageOwner {
  /** Charged for large values that are made of the content. */
  readonly memory: SessionMemory;
  /** The application has taken a message that used up `charge` of credit. */
  handleTaken(charge: number): void;
}

/** A message that holds memory and credit until the application has taken it. */
export class ReceivedMessage implements Message {
  securityStatus: SecurityStatus | undefined;
  /** Of the memory that the content takes, until {@link release}. */
  reservation: Reservation | undefined;
  /** The session that received it. */
  owner: MessageOwner | undefined;
  #parsed: Reservation | undefined;
  readonly #body: ReceivedBody;
  readonly #coder: BodyCoder;
  readonly #partText: PartText | undefined;
  readonly #onText: (() => void) | undefined;
  #bytes: Uint8Array | undefined;
  #text: string | undefined;
  #textFailure: unknown;
  #tokens: Uint32Array | undefined;
  #tensor: AssembledTensor | undefined;
  #header: M2MHeader | undefined;
  #metadata: Metadata | undefined;

  constructor(
    body: ReceivedBody,
    coder: BodyCoder,
    partText: PartText | undefined,
    onText: (() => void) | undefined,
  ) {
    this.#body = body;
    this.#coder = coder;
    this.#partText = partText;
    this.#onText = onText;
    this.securityStatus = body.securityStatus;
    if (partText === undefined || body.codec !== BodyCodec.TOKEN_NATIVE) return;
    const tokens = this.tokens as Uint32Array;
    // The decoder of a stream has to see every part in order, asked for or not. Tokens that make no text
    // are tokens all the same.
    try {
      this.#text = partText.push(tokens);
    } catch (error) {
      this.#textFailure = error;
    }
  }

  get from(): string | undefined {
    return this.#body.agent;
  }

  get algorithm(): BodyForm {
    return formOf(this.#body.codec);
  }

  /** What it costs of its stream's credit until the application has taken it. */
  get charge(): number {
    return this.#body.charge;
  }

  get codedLength(): number {
    return this.#body.bytes.length;
  }

  get bytes(): Uint8Array {
    try {
      this.#bytes ??= this.#coder.decode(this.#body);
      return this.#bytes;
    } catch (error) {
      throw this.#blame(error);
    }
  }

  get text(): string {
    this.#onText?.();
    try {
      if (this.#textFailure !== undefined) throw this.#textFailure;
      this.#text ??=
        this.#body.codec === BodyCodec.TOKEN_NATIVE && this.#partText === undefined
          ? this.#coder.decodeTokens(this.tokens as Uint32Array)
          : decodeUtf8(this.#body.content ?? this.bytes);
      return this.#text;
    } catch (error) {
      throw this.#blame(error);
    }
  }

  get tokens(): Uint32Array | undefined {
    if (this.#body.codec !== BodyCodec.TOKEN_NATIVE) return undefined;
    try {
      this.#tokens ??= this.#coder.tokens(this.#body);
      return this.#tokens;
    } catch (error) {
      throw this.#blame(error);
    }
  }

  get header(): M2MHeader | undefined {
    if (this.#body.codec !== BodyCodec.M2M) return undefined;
    try {
      this.#header ??= this.#coder.header(this.#body);
      return this.#header;
    } catch (error) {
      throw this.#blame(error);
    }
  }

  get tensor(): AssembledTensor | undefined {
    if (this.#body.codec !== BodyCodec.AVP) return undefined;
    try {
      this.#tensor ??= this.#coder.tensor(this.#body);
      return this.#tensor;
    } catch (error) {
      throw this.#blame(error);
    }
  }

  get metadata(): Metadata {
    try {
      this.#metadata ??= decodeMetadata(this.#body.metadata, this.#coder.limits.maxJsonDepth);
      return this.#metadata;
    } catch (error) {
      throw this.#blame(error);
    }
  }

  json<T = unknown>(): T {
    const { text } = this;
    try {
      return this.#coder.parse<T>(text, (values) => this.#chargeValues(values));
    } catch (error) {
      throw this.#blame(error);
    }
  }

  /** The application is done with it. */
  release(): void {
    this.reservation?.release();
    this.#parsed?.release();
  }

  #chargeValues(values: number): void {
    if (values < MIN_CHARGED_VALUES || this.#parsed !== undefined) return;
    this.#parsed = this.owner?.memory.charge(values * MEMORY_OF_VALUE);
  }

  /** The sender of what cannot be decoded is told so. */
  #blame(error: unknown): unknown {
    return blame(error, this, this.#coder);
  }
}
