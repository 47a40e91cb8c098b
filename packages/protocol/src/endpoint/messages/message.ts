import { SELF, workAsTheyAre } from '../../base/as-they-are.js';
import { ProtocolError } from '../../base/errors.js';
import type { Reservation, SessionMemory } from '../../base/memory.js';
import { present, showAs } from '../../base/shown.js';
import { decodeUtf8 } from '../../base/text.js';
import { type BodyForm, formOf } from '../../codec/algorithms.js';
import { BodyCodec, countText, type ReceivedBody, type SecurityStatus } from '../../codec/body.js';
import type { BodyCoder, PartText } from '../../codec/coder.js';
import type { M2MHeader } from '../../codec/m2m/header.js';
import type { AssembledTensor, ReceivedTensor } from '../tensors/tensor.js';
import { decodeMetadata, type Metadata } from './metadata.js';
import { blame } from './undecodable.js';

/**
 * A received message, request, reply or part of a reply. Each property is decoded when it is first read, and
 * throws a `ProtocolError` if the content cannot be decoded. So a copy, of `{ ...message }` or `structuredClone`, lacks the
 * content: copy the properties that you need, such as `{ text: message.text }`.
 *
 * @typeParam Json what its sender is expected to send, for {@link json}. It is not checked.
 */
export interface Message<Json = unknown> {
  /**
   * The address of the client that sent it, as the server authenticated it; `undefined` if the peer itself
   * sent it.
   */
  readonly from: string | undefined;
  /** The codec of the body; `CONTEXT` if it was coded against earlier messages, `AVP` for a tensor. */
  readonly algorithm: BodyForm;
  /**
   * The content, byte for byte as it was sent; the elements of a tensor.
   *
   * @throws {ProtocolError} the codec's error if it cannot be decoded; `unsupported` for a streamed tensor.
   */
  readonly bytes: Uint8Array;
  /** The content as text. @throws {ProtocolError} as {@link bytes}; `bad_utf8` if it is not UTF-8. */
  readonly text: string;
  /** Token IDs of the negotiated encoding, if the body was sent as token IDs. */
  readonly tokens: Uint32Array | undefined;
  /** The routing header of an M2M message, read without decompressing its payload. */
  readonly header: M2MHeader | undefined;
  /** The tensor of an AVP message. */
  readonly tensor: ReceivedTensor | undefined;
  /**
   * The metadata of a request or reply; empty if it has none.
   *
   * @throws {ProtocolError} `bad_message`, `json_too_deep`.
   */
  readonly metadata: Metadata;
  /**
   * The result of a scan: that of this end, or the one that the peer states in `m2m.v1.json`; `undefined` if
   * the content was not scanned.
   */
  readonly securityStatus: SecurityStatus | undefined;
  /** Bytes of the coded body on the wire. */
  readonly codedLength: number;
  /**
   * Server: the number of this one-way message of its client in a recorded session, from 1, the same at all nodes;
   * `undefined` in other sessions, and for tensors and requests.
   */
  readonly number?: number | undefined;
  /**
   * Server: a node that died may have handled this message before, as it had not recorded that.
   *
   * @default false
   */
  readonly isRedelivered?: boolean | undefined;
  /**
   * Parses the content as JSON. Its type is not checked.
   *
   * @throws {ProtocolError} as {@link text}; `bad_json`; `json_too_deep` or another limit of JSON.
   */
  json<T = Json>(): T;
}

/** An error of `parseJson`, in words that help if the document is plain text. */
export function explainText(error: unknown, text: string): unknown {
  if (!(error instanceof ProtocolError) || error.code !== 'bad_json' || !/^\s*[^\s"[{]/.test(text))
    return error;
  const message =
    'this is text; if you meant an object with the one member `text`, send `{ json: { text } }`';
  return new ProtocolError('bad_json', message, { cause: error.cause });
}

/** The fields that are shown of a message: its text or how many bytes it has, and anything unusual. */
export function messageFields({
  text,
  bytes,
  metadata = {},
  algorithm,
  from,
}: {
  readonly text: string | undefined;
  readonly bytes: Uint8Array | undefined;
  readonly metadata: Metadata | undefined;
  readonly algorithm: BodyForm;
  readonly from: string | undefined;
}): object {
  const hasMetadata = Object.keys(metadata).length > 0;
  return present({
    text,
    bytes: text === undefined ? bytes?.length : undefined,
    algorithm,
    from,
    metadata: hasMetadata ? metadata : undefined,
  });
}

/** Values of parsed JSON that take fewer bytes than this are not charged. */
const MIN_CHARGED = 64 * 1024;

/** The session that a received message belongs to. */
export interface MessageOwner {
  /** Charged for large parsed values. */
  readonly memory: SessionMemory;
  /** The application has taken a message that used up `charge` of credit. */
  handleTaken(charge: number, message?: Message): void;
  /** Server: the application is done with a message. @param number in a recorded session. */
  handleDone?(number: number | undefined, message?: Message): void;
}

/** A message that holds memory and credit until the application has taken it. */
export class ReceivedMessage implements Message {
  readonly [SELF] = this;
  /** In place of a static block, which the Babel preset of React Native does not translate. */
  static readonly shown = showAs(ReceivedMessage, 'Message', (message) => message.#shown);
  securityStatus: SecurityStatus | undefined;
  number: number | undefined;
  isRedelivered: boolean | undefined;
  // A field that is not private would be in each copy of the message that an application makes.
  readonly #reservation: Reservation | undefined;
  readonly #owner: MessageOwner | undefined;
  /** Memory of the parsed content. */
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

  /**
   * @param partText decodes the text of the part of a stream together with the parts before it.
   * @param onText called when the text is read.
   * @param reservation memory of the content, until the application is done with the message.
   * @param owner the session that received it.
   */
  constructor(
    body: ReceivedBody,
    coder: BodyCoder,
    partText?: PartText,
    onText?: () => void,
    reservation?: Reservation,
    owner?: MessageOwner,
  ) {
    this.#reservation = reservation;
    this.#owner = owner;
    this.#body = body;
    this.#coder = coder;
    this.#partText = partText;
    this.#onText = onText;
    this.securityStatus = body.securityStatus;
    if (partText === undefined || body.codec !== BodyCodec.TOKEN_NATIVE) return;
    const tokens = this.tokens as Uint32Array;
    // The decoder of a stream needs every part in order. If the text cannot be decoded, the tokens still can
    // be read.
    try {
      const before = partText.length;
      this.#text = partText.push(tokens);
      countText(body, partText.length - before);
    } catch (error) {
      this.#textFailure = error;
    }
  }

  get from(): string | undefined {
    return this.#body.address;
  }

  get algorithm(): BodyForm {
    return formOf(this.#body.codec);
  }

  /** As it was received. */
  get received(): ReceivedBody {
    return this.#body;
  }

  /** Credit that it uses up until the application has taken it. */
  get charge(): number {
    return this.#body.charge;
  }

  get codedLength(): number {
    return this.#body.bytes.length;
  }

  get bytes(): Uint8Array {
    try {
      if (this.#bytes === undefined) {
        this.#bytes = this.#coder.decode(this.#body);
        if (this.#partText === undefined) countText(this.#body, this.#bytes.length);
      }
      return this.#bytes;
    } catch (error) {
      throw this.#blame(error);
    }
  }

  get text(): string {
    this.#onText?.();
    try {
      if (this.#textFailure !== undefined) throw this.#textFailure;
      this.#text ??= decodeUtf8(this.#body.content ?? this.bytes);
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
      return this.#coder.parse<T>(text, {
        paid: this.#body.bytes.length,
        onMemory: (bytes) => this.#chargeParsed(bytes),
      });
    } catch (error) {
      throw this.#blame(explainText(error, text));
    }
  }

  /** Read without the effects that reading has for the sender. */
  get #shown(): object {
    const shownOf = <Value>(read: () => Value) => {
      try {
        return read();
      } catch {
        return undefined;
      }
    };
    const body = this.#body;
    const isTensor = body.codec === BodyCodec.AVP;
    const bytes = shownOf(() => this.#bytes ?? body.content ?? this.#coder.decode(body));
    const text = isTensor ? undefined : (this.#text ?? (bytes && shownOf(() => decodeUtf8(bytes))));
    const metadata = shownOf(() => decodeMetadata(body.metadata, this.#coder.limits.maxJsonDepth));
    return messageFields({ text, bytes, metadata, algorithm: this.algorithm, from: this.from });
  }

  /** The session that received it. */
  get owner(): MessageOwner | undefined {
    return this.#owner;
  }

  /** The application is done with it. */
  release(): void {
    this.#reservation?.release();
    this.#parsed?.release();
  }

  #chargeParsed(bytes: number): void {
    if (bytes < MIN_CHARGED || this.#parsed !== undefined) return;
    this.#parsed = this.#owner?.memory.charge(bytes, this.#reservation);
  }

  /** Records the error, so that the sender is notified if it caused it. */
  #blame(error: unknown): unknown {
    return blame(error, this, this.#coder);
  }
}

workAsTheyAre(ReceivedMessage);
