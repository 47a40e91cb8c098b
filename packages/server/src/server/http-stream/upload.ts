import type { IncomingMessage } from 'node:http';
import { CloseCode, isProtocolError } from '@parlance/protocol';
import { RecordReader } from '@parlance/protocol/records';
import type { Flow, HttpStream } from './http-stream.js';

/** The answer to a request up: all of it was taken, or was taken before. */
export const TAKEN = 204;
/** Bytes of a body in which its key has to come: until then, its memory is charged to no session. */
const MAX_FIRST = 1_024;

export interface UploadOptions {
  readonly request: IncomingMessage;
  /** Bytes of the body and of a record, at most. */
  readonly maxSize: number;
  readonly maxRecord: number;
  /** Milliseconds that the body may take, without the time in which it is not read. */
  readonly timeoutMs: number;
  readonly now: number;
  /** The request has opened it; `undefined` if its first record says which stream it is for. */
  readonly stream: HttpStream | undefined;
  /** @returns the stream of a first record, or the status of the answer. */
  readonly find: (first: Uint8Array) => HttpStream | number;
  /** Called once, unless the request breaks off. */
  readonly onEnd: (status: number) => void;
  readonly onOver: () => void;
}

/**
 * The body of a request up. Its frames are taken as they arrive; if it breaks off, is late or is not made of records, its stream ends
 * after those that were whole.
 */
export class Upload implements Flow {
  readonly #options: UploadOptions;
  readonly #reader: RecordReader;
  #stream: HttpStream | undefined;
  #deadline: number;
  #size = 0;
  #frames = 0;
  #isHeld = false;
  #isAnswered = false;

  constructor(options: UploadOptions) {
    this.#options = options;
    const { request, stream, maxRecord, now, timeoutMs, onOver } = options;
    this.#deadline = now + timeoutMs;
    this.#reader = new RecordReader(maxRecord, {
      onRecord: (frame) => this.#handleRecord(frame),
      onClose: (code, reason) => {
        this.#answer(this.#stream === undefined ? 404 : TAKEN);
        this.#stream?.over(code, reason);
      },
    });
    this.#stream = stream;
    stream?.begin(this);
    request.on('data', (chunk: Buffer) => this.#handleData(chunk));
    request.on('end', () => this.#handleEnd());
    request.on('error', () => request.destroy());
    request.on('close', () => {
      onOver();
      // It has broken off.
      if (!this.#isAnswered) this.#stream?.terminate();
    });
  }

  setHeld(isHeld: boolean): void {
    if (isHeld === this.#isHeld) return;
    this.#isHeld = isHeld;
    if (isHeld) this.#options.request.pause();
    else this.#options.request.resume();
  }

  abandon(): void {
    this.#answer(404);
    this.setHeld(false);
  }

  /** Ends the connection of a body that takes too long. */
  handleTick(now: number): void {
    const { timeoutMs, request } = this.#options;
    if (this.#isHeld) this.#deadline = now + timeoutMs;
    else if (now >= this.#deadline) request.destroy();
  }

  #handleData(chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size > this.#options.maxSize) return this.#fail(413, CloseCode.TOO_LARGE);
    // What follows an answer is read and dropped.
    if (this.#isAnswered) return;
    try {
      this.#reader.push(chunk);
    } catch (error) {
      const isLong = isProtocolError(error) && error.code === 'message_too_large';
      this.#fail(isLong ? 413 : 400, isLong ? CloseCode.TOO_LARGE : CloseCode.BAD_FRAME);
      if (!isProtocolError(error)) throw error;
    }
    if (this.#stream === undefined && this.#size > MAX_FIRST) this.#answer(404);
    this.#stream?.handleData(chunk.length);
  }

  #handleRecord(frame: Uint8Array): void {
    if (this.#isAnswered) return;
    if (this.#stream !== undefined) {
      this.#frames++;
      return this.#stream.handleRecord(frame);
    }
    const found = this.#options.find(frame);
    if (typeof found === 'number') return this.#answer(found);
    this.#stream = found;
    found.begin(this);
  }

  #handleEnd(): void {
    if (this.#isAnswered) return;
    if (!this.#reader.isComplete) return this.#fail(400, CloseCode.BAD_FRAME);
    if (this.#stream === undefined) return this.#answer(404);
    if (this.#frames === 0) this.#stream.handleControl();
    this.#stream.taken++;
    this.#answer(TAKEN);
  }

  #fail(status: number, closeCode: CloseCode): void {
    this.#stream?.close(closeCode, '');
    if (this.#isAnswered) this.#options.request.destroy();
    this.#answer(status);
  }

  #answer(status: number): void {
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    this.#stream?.end();
    this.#options.onEnd(status);
  }
}
