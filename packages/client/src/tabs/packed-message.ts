import type { Limits, Message, ReceivedTensor, StreamedTensor } from '@parlance/protocol';
import {
  decodeUtf8,
  encodeUtf8,
  explainText,
  messageFields,
  ProtocolError,
  parseContent,
  SELF,
  showAs,
  workAsTheyAre,
} from '@parlance/protocol/client';
import { chargeOf } from './bounds.js';
import { type PackedError, packError, unpackError } from './packed-error.js';

/** A received message as it crosses from the host, which has the codecs, to a tab. */
export interface PackedMessage
  extends Pick<Message, 'from' | 'algorithm' | 'codedLength' | 'securityStatus'>,
    Partial<Pick<Message, 'tokens' | 'header' | 'metadata'>> {
  /** The content, if it is text and its bytes are those of the text. */
  readonly text?: string | undefined;
  readonly textError?: PackedError | undefined;
  readonly bytes?: Uint8Array | undefined;
  readonly bytesError?: PackedError | undefined;
  readonly tensor?: Exclude<ReceivedTensor, StreamedTensor> | undefined;
}

/** Decodes a message. Content that cannot be decoded crosses as its error. */
export function packMessage(message: Message): PackedMessage {
  const { from, algorithm, codedLength, securityStatus, tensor } = message;
  const common = { from, algorithm, codedLength, securityStatus };
  if (tensor !== undefined) {
    if (tensor.data === undefined)
      throw new ProtocolError('unsupported', 'streamed tensors cannot be shared');
    return { ...common, tensor: { ...tensor, data: copyOf(tensor.data) } };
  }
  const [header, metadata] = [readable(() => message.header), readable(() => message.metadata)];
  const tokens = readable(() => message.tokens);
  return {
    ...common,
    ...packContent(message),
    ...(header !== undefined && { header }),
    ...(tokens !== undefined && { tokens: tokens.slice() }),
    ...(metadata !== undefined && Object.keys(metadata).length > 0 && { metadata }),
  };
}

function packContent(message: Message): Pick<PackedMessage, 'text' | 'textError' | 'bytes' | 'bytesError'> {
  const text = attempt(() => message.text);
  const bytes = attempt(() => message.bytes);
  if ('value' in text && 'value' in bytes) {
    // A part that is tokens may end inside a character, so that its text is not that of its bytes.
    const isSame = message.algorithm !== 'TOKEN_NATIVE' || isTextOf(text.value, bytes.value);
    if (isSame) return { text: text.value };
  }
  return {
    ...('value' in text ? { text: text.value } : { textError: packError(text.error) }),
    ...('value' in bytes ? { bytes: copyOf(bytes.value) } : { bytesError: packError(bytes.error) }),
  };
}

function isTextOf(text: string, bytes: Uint8Array): boolean {
  const encoded = attempt(() => encodeUtf8(text));
  return (
    'value' in encoded &&
    encoded.value.length === bytes.length &&
    encoded.value.every((byte, i) => byte === bytes[i])
  );
}

function readable<Value>(read: () => Value): Value | undefined {
  const result = attempt(read);
  return 'value' in result ? result.value : undefined;
}

function attempt<Value>(read: () => Value): { readonly value: Value } | { readonly error: unknown } {
  try {
    return { value: read() };
  } catch (error) {
    return { error };
  }
}

/** A copy with memory of its own: a clone of a view would take all of the memory behind it along. */
export function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}

/** The memory of a message that need not be copied, as nothing else refers to it. */
export function buffersOf({ bytes, tokens, tensor }: PackedMessage): readonly ArrayBuffer[] {
  return [bytes, tokens, tensor?.data].flatMap((view) =>
    view?.buffer instanceof ArrayBuffer ? [view.buffer] : [],
  );
}

/** The memory that a message counts while it is under way. */
export function chargeOfMessage({ text, bytes, tokens, tensor }: PackedMessage): number {
  return chargeOf(text, bytes, tokens, tensor?.data);
}

export interface SharedMessageOptions {
  readonly limits: Limits;
  /** The reader has taken it. */
  readonly onTaken?: (() => void) | undefined;
  /** The text was read. */
  readonly onText?: (() => void) | undefined;
}

/** A message as a tab sees it. */
export class SharedMessage implements Message {
  readonly [SELF] = this;
  /** In place of a static block, which the Babel preset of React Native does not translate. */
  static readonly shown = showAs(SharedMessage, 'Message', (message) => {
    const { text, bytes } = message.#packed;
    return messageFields({ ...message, text, bytes });
  });
  readonly from: string | undefined;
  readonly algorithm: Message['algorithm'];
  readonly codedLength: number;
  readonly securityStatus: Message['securityStatus'];
  readonly tokens: Uint32Array | undefined;
  readonly header: Message['header'];
  readonly metadata: Message['metadata'];
  readonly tensor: Message['tensor'];
  readonly #packed: PackedMessage;
  readonly #options: SharedMessageOptions;
  #bytes: Uint8Array | undefined;

  constructor(packed: PackedMessage, options: SharedMessageOptions) {
    this.from = packed.from;
    this.algorithm = packed.algorithm;
    this.codedLength = packed.codedLength;
    this.securityStatus = packed.securityStatus;
    this.tokens = packed.tokens;
    this.header = packed.header;
    this.metadata = Object.freeze(packed.metadata ?? {});
    this.tensor = packed.tensor;
    this.#packed = packed;
    this.#options = options;
  }

  get bytes(): Uint8Array {
    const { bytesError, bytes, tensor, text = '' } = this.#packed;
    if (bytesError !== undefined) throw unpackError(bytesError);
    this.#bytes ??= bytes ?? tensor?.data ?? encodeUtf8(text);
    return this.#bytes;
  }

  get text(): string {
    this.#options.onText?.();
    const { textError, text } = this.#packed;
    if (textError !== undefined) throw unpackError(textError);
    return text ?? decodeUtf8(this.bytes);
  }

  json<T = unknown>(): T {
    if (this.tensor !== undefined) throw new ProtocolError('unsupported', 'a tensor is not JSON');
    const { text } = this;
    try {
      // The worker, or the tab that has the session, has bounded the text.
      return parseContent<T>(text, this.#options.limits, { paid: text.length });
    } catch (error) {
      throw explainText(error, text);
    }
  }

  handleTaken(): void {
    this.#options.onTaken?.();
  }
}

workAsTheyAre(SharedMessage);
