import { platform } from '#platform';
import type { Reservation, SessionMemory } from '../../base/memory.js';
import { assertChecksum, createAvpMessage, decodePayload } from '../../codec/avp/frame.js';
import { BodyBuffer } from '../../codec/avp/transfer.js';
import { largestExpansion } from '../../codec/text/expansion.js';
import { TensorMessage } from './message.js';
import type { Transfer, TransferSink } from './transfer.js';

/** Bytes of memory that a tensor needs beside its data while it waits to be read. */
const TENSOR_OVERHEAD = 1024;
/** Bytes of memory that each byte of its head needs as objects. */
const MEMORY_OF_HEAD = 8;

/** A tensor that the application gets as a whole. Its sender gets no credit until there is memory for it. */
export class AssembledTransfer implements TransferSink {
  readonly #transfer: Transfer;
  readonly #maxDecompressed: number;
  readonly #body: BodyBuffer;
  readonly #reservation: Reservation;
  #hasMemory = false;
  /** Bytes that arrived before there was memory; the credit of the stream limits them. */
  #early: { readonly bytes: Uint8Array; readonly charge: number }[] = [];
  #isWhole = false;

  /**
   * @param now clock reading in milliseconds.
   * @param maxMessageSize bytes that a compressed body may expand to.
   */
  constructor(transfer: Transfer, memory: SessionMemory, now: number, maxMessageSize: number) {
    const { bodyLength, header, headLength } = transfer.head;
    this.#transfer = transfer;
    this.#maxDecompressed = Math.min(maxMessageSize, largestExpansion(bodyLength));
    this.#body = new BodyBuffer(bodyLength);
    const size = bodyLength + (header.compressed ? this.#maxDecompressed : 0);
    this.#reservation = memory.queue(size + TENSOR_OVERHEAD + MEMORY_OF_HEAD * headLength, {
      now,
      // The reader may take long over the tensors before this one.
      isPatient: true,
      begin: () => this.#begin(),
      refuse: (error) => transfer.refuse(error),
    });
  }

  take(bytes: Uint8Array, charge: number): void {
    if (!this.#hasMemory) {
      this.#early.push({ bytes, charge });
      return;
    }
    this.#body.append(bytes);
    this.#transfer.consume(charge);
  }

  finish(): void {
    this.#isWhole = true;
    if (this.#hasMemory) this.#complete();
  }

  end(): void {
    this.#early = [];
    this.#reservation.release();
  }

  #begin(): void {
    this.#hasMemory = true;
    const early = this.#early;
    this.#early = [];
    for (const { bytes, charge } of early) this.take(bytes, charge);
    if (!this.#isWhole) return;
    try {
      this.#complete();
    } catch (error) {
      this.#transfer.refuse(error);
    }
  }

  #complete(): void {
    const { head, reader, from, deliver, accept } = this.#transfer;
    const body = this.#body.finish();
    const data = decodePayload(head, body, { maxDecompressedSize: this.#maxDecompressed });
    const checksum = reader.expectedChecksum;
    if (head.header.compressed && checksum !== undefined) assertChecksum(platform.crc32(data), checksum);
    else reader.verify();
    const tensor = createAvpMessage({ ...head, checksum }, data);
    const codedLength = head.headLength + head.bodyLength;
    deliver(new TensorMessage({ tensor, from, codedLength, reservation: this.#reservation }), accept);
  }
}
