import { ProtocolError } from '../../base/errors.js';
import { Inbox } from '../messages/inbox.js';
import { TensorMessage } from './message.js';
import type { StreamedTensor } from './tensor.js';
import type { Transfer, TransferSink } from './transfer.js';

interface Chunk {
  readonly bytes: Uint8Array;
  readonly charge: number;
}

/**
 * A tensor that the application reads while it arrives. The credit of its stream limits the bytes that were
 * not read. The stream stays open, and the tensor is accepted, only when the application has read all bytes.
 */
export class StreamedTransfer implements TransferSink {
  readonly #transfer: Transfer;
  readonly #chunks: Inbox<Chunk>;
  /** Everything has arrived, and the checksum is right. */
  #isVerified = false;

  constructor(transfer: Transfer) {
    this.#transfer = transfer;
    this.#chunks = new Inbox({
      onTake: ({ charge }) => this.#handleTaken(charge),
      onRelease: () => this.#cancel(),
    });
    const { shape, dtype, payloadType, metadata, headLength, bodyLength } = transfer.head;
    const tensor: StreamedTensor = {
      shape,
      dtype,
      payloadType,
      metadata,
      byteLength: bodyLength,
      chunks: bytesOf(this.#chunks),
      cancel: () => this.#cancel(),
    };
    const { from } = transfer;
    transfer.deliver(new TensorMessage({ tensor, from, codedLength: headLength + bodyLength }));
  }

  take(bytes: Uint8Array, charge: number): void {
    if (bytes.length > 0) this.#chunks.push({ bytes, charge });
    else this.#transfer.consume(charge);
  }

  finish(): void {
    this.#transfer.reader.verify();
    this.#isVerified = true;
    this.#chunks.end();
    if (this.#chunks.size === 0) this.#transfer.accept();
  }

  end(error: Error): void {
    this.#chunks.end(error);
  }

  #handleTaken(charge: number): void {
    this.#transfer.consume(charge);
    if (this.#isVerified && this.#chunks.size === 0) this.#transfer.accept();
  }

  #cancel(): void {
    this.#transfer.refuse(new ProtocolError('cancelled', 'the receiver cancelled the transfer'));
    this.#chunks.clear();
  }
}

/** The bytes of chunks. Taking a chunk counts as reading it. */
function bytesOf(chunks: Inbox<Chunk>): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const inner = chunks[Symbol.asyncIterator]();
      return {
        async next() {
          const { value, done } = await inner.next();
          return done === true ? { value: undefined, done } : { value: value.bytes, done: false };
        },
        async return() {
          await inner.return?.();
          return { value: undefined, done: true };
        },
      };
    },
  };
}
