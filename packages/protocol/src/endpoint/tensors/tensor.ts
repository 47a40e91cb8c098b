import type { AvpInput, AvpMessage } from '../../codec/avp/frame.js';
import type { AvpMetadata, PayloadType } from '../../codec/avp/metadata.js';
import type { Dtype } from '../../codec/avp/tensor.js';

/** A tensor to send. */
export interface TensorInput extends Omit<AvpInput, 'data'> {
  /**
   * The elements, little-endian: a view, which must not change until the call resolves, or views that an
   * iterable generates. The iterable may reuse the memory of a view as soon as it is asked for the next one.
   */
  readonly data: ArrayBufferView | AsyncIterable<ArrayBufferView> | Iterable<ArrayBufferView>;
  /**
   * Bytes of generated `data` without a shape, such as a KV-cache.
   *
   * @default the bytes of `shape` × `dtype`
   */
  readonly byteLength?: number | undefined;
}

/** A tensor that was received as a whole: with `transfers: 'assemble'`, or if it is compressed. */
export interface AssembledTensor extends AvpMessage {
  readonly chunks?: undefined;
}

/** A tensor that is read while it arrives, with `transfers: 'stream'`. */
export interface StreamedTensor {
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  readonly payloadType: PayloadType;
  readonly metadata: AvpMetadata;
  /** Bytes of all chunks together. */
  readonly byteLength: number;
  /**
   * The elements as they arrive, little-endian; a chunk may end inside an element. Can be read once. A reader
   * that stops reading holds the sender back; leaving the loop early refuses the rest. The data is verified
   * only when the loop ends by itself.
   *
   * @throws {ProtocolError} after the last chunk: `bad_checksum`; `cancelled` if the sender cancelled; the
   * error that ended the session.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Refuses the rest; `sendTensor` of the sender rejects with `cancelled`. */
  cancel(): void;
  readonly data?: undefined;
}

/** A received tensor. Only an assembled one has `data`, only a streamed one has `chunks`. */
export type ReceivedTensor = AssembledTensor | StreamedTensor;
