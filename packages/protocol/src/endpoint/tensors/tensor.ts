import type { AvpInput, AvpMessage } from '../../codec/avp/frame.js';
import type { AvpMetadata, PayloadType } from '../../codec/avp/metadata.js';
import type { Dtype } from '../../codec/avp/tensor.js';

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
