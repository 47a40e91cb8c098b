import { ProtocolError } from '../../base/errors.js';
import type { Reservation } from '../../base/memory.js';
import { decodeUtf8 } from '../../base/text.js';
import type { AvpInput, AvpMessage } from '../../codec/avp/frame.js';
import type { AvpMetadata, PayloadType } from '../../codec/avp/metadata.js';
import type { Dtype } from '../../codec/avp/tensor.js';
import type { SecurityStatus } from '../../codec/body.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';

/** A tensor to send. */
export interface TensorInput extends Omit<AvpInput, 'data'> {
  /**
   * Little-endian elements: in any view, which must not change before the call resolves, or generated
   * piece by piece. A piece may be used again as soon as the next one is asked for.
   */
  readonly data: ArrayBufferView | AsyncIterable<ArrayBufferView> | Iterable<ArrayBufferView>;
  /**
   * Bytes of `data`, for what is generated and has no shape, such as a KV-cache.
   *
   * @default the bytes of `shape` × `dtype`
   */
  readonly byteLength?: number | undefined;
}

/** A tensor that was received as a whole, with `transfers: 'assemble'`. */
export interface AssembledTensor extends AvpMessage {
  readonly chunks?: undefined;
}

/** A tensor that is read while it arrives, with `transfers: 'stream'`. */
export interface StreamedTensor {
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  readonly payloadType: PayloadType;
  readonly metadata: AvpMetadata;
  /** Bytes that `chunks` gives in all. */
  readonly byteLength: number;
  /**
   * The elements as they arrive; chunks may end within an element. Whoever does not read holds the
   * sender back. Leaving the loop early refuses the rest. What was received is known to be right only
   * when the loop has ended by itself: a wrong checksum, and a sender that gave up (`cancelled`), throw
   * behind the last chunk. Can be read once.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Refuses what has not arrived; `sendTensor` rejects with `cancelled` at the far end. */
  cancel(): void;
  readonly data?: undefined;
}

/** A tensor as its receiver has it; `data` tells the two apart. */
export type ReceivedTensor = AssembledTensor | StreamedTensor;

export interface TensorMessageOptions {
  readonly tensor: ReceivedTensor;
  /** The agent that sent it, where it came through a server. */
  readonly from: string | undefined;
  readonly codedLength: number;
  /** Of the memory that the tensor takes, until its application is done with it. */
  readonly reservation?: Reservation | undefined;
}

/** A message that is a tensor. */
export class TensorMessage implements Message {
  readonly algorithm = 'AVP';
  readonly tokens = undefined;
  readonly header = undefined;
  readonly metadata: Metadata = NO_METADATA;
  securityStatus: SecurityStatus | undefined;
  /** Its stream was credited with it already. */
  readonly charge = 0;
  readonly tensor: ReceivedTensor;
  readonly from: string | undefined;
  readonly codedLength: number;
  readonly reservation: Reservation | undefined;

  constructor({ tensor, from, codedLength, reservation }: TensorMessageOptions) {
    this.tensor = tensor;
    this.from = from;
    this.codedLength = codedLength;
    this.reservation = reservation;
  }

  /** The application is done with it. */
  release(): void {
    this.reservation?.release();
  }

  get bytes(): Uint8Array {
    const { data } = this.tensor;
    if (data !== undefined) return data;
    throw new ProtocolError('unsupported', 'this tensor is streamed: read the chunks of `tensor`');
  }

  get text(): string {
    return decodeUtf8(this.bytes);
  }

  json<T = unknown>(): T {
    throw new ProtocolError('unsupported', 'a tensor is no JSON');
  }
}

const NO_METADATA: Metadata = Object.freeze({});
