import { ProtocolError, toProtocolError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import type { SessionMemory } from '../../base/memory.js';
import type { AvpHead } from '../../codec/avp/head.js';
import { TransferReader } from '../../codec/avp/transfer.js';
import type { BodyPiece } from '../../link/reassembly.js';
import { AssembledTransfer } from './assembly.js';
import type { TensorMessage } from './message.js';
import { StreamedTransfer } from './stream.js';
import type { Transfer, TransferSink } from './transfer.js';

/**
 * How an application receives tensors: `assemble` delivers the whole tensor, `stream` its bytes while they
 * arrive.
 */
export type TransferMode = 'assemble' | 'stream';

export interface TensorReceiverOptions {
  /** Compressed tensors are assembled in either mode. */
  readonly mode: TransferMode;
  readonly limits: Limits;
  /** Called when memory is needed. */
  readonly memory: () => SessionMemory;
  /** Clock reading in milliseconds. */
  readonly now: () => number;
  /** Bytes of a tensor that is assembled; `limits` alone applies to a streamed one. */
  readonly maxAssembledSize: number;
  /** Scans a tensor and calls `deliver` if it passes. */
  readonly admit: (message: TensorMessage, deliver: () => void) => void;
  readonly deliver: (message: TensorMessage) => void;
  readonly consume: (streamId: number, charge: number) => void;
  readonly accept: (streamId: number) => void;
  readonly refuse: (streamId: number, error: ProtocolError) => void;
  /** A tensor was accepted, or was not for this reason. */
  readonly onOver?: ((error: Error | undefined) => void) | undefined;
}

/** A tensor that was not yet accepted or refused. */
interface Incoming {
  readonly reader: TransferReader;
  readonly from: string | undefined;
  sink: TransferSink | undefined;
}

/**
 * Receives the tensors of one session, and accepts or refuses each. An invalid tensor does not affect the
 * others.
 */
export class TensorReceiver {
  readonly #options: TensorReceiverOptions;
  readonly #incoming = new Map<number, Incoming>();

  constructor(options: TensorReceiverOptions) {
    this.#options = options;
  }

  handlePiece(streamId: number, piece: BodyPiece): void {
    if (piece.offset === 0) {
      const reader = new TransferReader(piece.totalLength);
      this.#incoming.set(streamId, { reader, from: piece.address, sink: undefined });
    }
    const incoming = this.#incoming.get(streamId);
    if (incoming === undefined) return;
    try {
      this.#take(streamId, incoming, piece);
    } catch (error) {
      this.#refuse(streamId, error);
    }
  }

  /** The transfer is over. @param reason why. @default its sender cancelled it */
  handleCancel(
    streamId: number,
    reason: ProtocolError = new ProtocolError('cancelled', 'the sender cancelled the transfer', {
      side: 'remote',
    }),
  ): void {
    this.#forget(streamId, reason);
  }

  /** The session is over. */
  end(error: Error): void {
    for (const streamId of [...this.#incoming.keys()]) this.#forget(streamId, error);
  }

  #take(streamId: number, incoming: Incoming, { bytes, offset, totalLength, charge }: BodyPiece): void {
    const { reader } = incoming;
    const isLast = offset + bytes.length === totalLength;
    const body = reader.push(bytes);
    if (reader.head !== undefined) {
      incoming.sink ??= this.#open(streamId, incoming, reader.head);
      incoming.sink.take(body, charge);
      if (isLast) incoming.sink.finish();
      return;
    }
    if (isLast)
      throw new ProtocolError('truncated', 'the transfer ends before the head of the tensor is complete');
    this.#options.consume(streamId, charge);
  }

  #open(streamId: number, { reader, from }: Incoming, head: AvpHead): TransferSink {
    const { mode, limits, memory, now, maxAssembledSize, admit, deliver, consume, accept, onOver } =
      this.#options;
    const { bodyLength, header } = head;
    const isStreamed = mode === 'stream' && !header.compressed;
    const most = isStreamed ? limits.maxTransferSize : Math.min(maxAssembledSize, limits.maxTransferSize);
    if (bodyLength > most) {
      throw new ProtocolError(
        'transfer_too_large',
        `the tensor has ${bodyLength} bytes; at most ${most} can be received${isStreamed ? '' : ' as a whole'}`,
      );
    }
    if (header.compressed && bodyLength > limits.maxMessageSize) {
      throw new ProtocolError(
        'decompressed_too_large',
        `the tensor has ${bodyLength} compressed bytes; at most ${limits.maxMessageSize} can be received`,
      );
    }
    const transfer: Transfer = {
      head,
      reader,
      from,
      deliver: (message, delivered) =>
        admit(message, () => {
          if (this.#incoming.get(streamId)?.reader !== reader) return;
          deliver(message);
          delivered?.();
        }),
      consume: (charge) => consume(streamId, charge),
      accept: () => {
        this.#incoming.delete(streamId);
        onOver?.(undefined);
        accept(streamId);
      },
      refuse: (error) => this.#refuse(streamId, error),
    };
    if (isStreamed) return new StreamedTransfer(transfer);
    return new AssembledTransfer(transfer, memory(), now(), limits.maxMessageSize);
  }

  #refuse(streamId: number, error: unknown): void {
    if (!this.#incoming.has(streamId)) return;
    const reason = toProtocolError(error, 'internal', 'could not verify the tensor');
    this.#forget(streamId, reason);
    this.#options.refuse(streamId, reason);
  }

  #forget(streamId: number, error: Error): void {
    const incoming = this.#incoming.get(streamId);
    if (incoming === undefined) return;
    this.#incoming.delete(streamId);
    this.#options.onOver?.(error);
    incoming.sink?.end(error);
  }
}
