import { platform } from '#platform';
import { assertChecksum, createAvpMessage, decodePayload } from '../avp/frame.js';
import { BodyBuffer } from '../avp/transfer.js';
import { TensorMessage } from './tensor.js';
import type { Transfer, TransferSink } from './tensor-receiver.js';

/** What a tensor costs beside its bytes while it waits to be read. */
const TENSOR_OVERHEAD = 1024;

/**
 * Memory for the tensors of one session that are being assembled or wait to be read: together as much
 * as the largest one may take.
 */
export class TensorBudget {
  readonly #limit: number;
  #used = 0;
  /** In order of arrival, so that a large one is not overtaken for ever. */
  #waiting: { readonly size: number; readonly begin: () => void }[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Runs `begin` as soon as there is room for a tensor of `size` bytes, which may be now.
   *
   * @returns gives the room back, or stops waiting for it.
   */
  reserve(size: number, begin: () => void): () => void {
    const request = { size: size + TENSOR_OVERHEAD, begin };
    this.#waiting.push(request);
    this.#admit();
    return () => {
      if (this.#waiting.includes(request)) this.#waiting = this.#waiting.filter((other) => other !== request);
      else this.#used -= request.size;
      this.#admit();
    };
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      // What is allowed alone must not wait for ever because of its overhead.
      if (this.#used > 0 && this.#used + next.size > this.#limit) return;
      this.#waiting.shift();
      this.#used += next.size;
      next.begin();
    }
  }
}

/** A tensor that its application gets as a whole. While there is no room for it, it gets no credit. */
export class AssembledTransfer implements TransferSink {
  readonly #transfer: Transfer;
  readonly #maxDecompressed: number;
  readonly #body: BodyBuffer;
  readonly #release: () => void;
  #hasRoom = false;
  /** What has arrived before there was room, which its stream's credit bounds. */
  #early: { readonly bytes: Uint8Array; readonly charge: number }[] = [];
  #isWhole = false;

  /** @param maxDecompressed bytes that a compressed body may expand to. */
  constructor(transfer: Transfer, budget: TensorBudget, maxDecompressed: number) {
    const { bodyLength, header } = transfer.head;
    this.#transfer = transfer;
    this.#maxDecompressed = maxDecompressed;
    this.#body = new BodyBuffer(bodyLength);
    const size = header.compressed ? maxDecompressed : bodyLength;
    this.#release = once(budget.reserve(size, () => this.#begin()));
  }

  take(bytes: Uint8Array, charge: number): void {
    if (!this.#hasRoom) {
      this.#early.push({ bytes, charge });
      return;
    }
    this.#body.append(bytes);
    this.#transfer.consume(charge);
  }

  finish(): void {
    this.#isWhole = true;
    if (this.#hasRoom) this.#complete();
  }

  end(): void {
    this.#early = [];
    this.#release();
  }

  #begin(): void {
    this.#hasRoom = true;
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
    const checksum = reader.statedChecksum;
    if (head.header.compressed && checksum !== undefined) assertChecksum(platform.crc32(data), checksum);
    else reader.verify();
    const tensor = createAvpMessage({ ...head, checksum }, data);
    const codedLength = head.headLength + head.bodyLength;
    deliver(new TensorMessage({ tensor, from, codedLength, onTaken: this.#release }), accept);
  }
}

/** Room is given back once, whoever does it first. */
function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}
