import { Duplex, type Readable } from 'node:stream';
import { CloseCode, isProtocolError } from '@parlance/protocol';
import { RecordReader } from '@parlance/protocol/records';
import { type Flow, type HttpStream, TAKEN } from './http-stream.js';

/** Bytes of a body in which its key has to come: until then, its memory is charged to no session. */
const MAX_FIRST = 1_024;

export interface UploadOptions {
  readonly request: Readable;
  /** Bytes of the body and of a record, at most. */
  readonly maxSize: number;
  readonly maxRecord: number;
  /** Milliseconds that the body may take, without the time in which it is not read. */
  readonly timeoutMs: number;
  readonly now: number;
  /** The request has opened it; `undefined` if its first record says which stream it is for. */
  readonly stream?: HttpStream | undefined;
  /** @returns the stream of a first record, a pipe to the node that has it and writes the status of the answer, or that status. */
  readonly find: (first: Uint8Array) => HttpStream | Duplex | number;
  /** Called once, unless the request breaks off. @param isPassed another node has answered, or was to. */
  readonly onEnd: (status: number, isPassed: boolean) => void;
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
  /** To the node of the stream, which judges the whole body. */
  #pipe: Duplex | undefined;
  /** Chunks that have come before it is known to which stream they go. */
  readonly #begun: Buffer[] = [];
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
        if (this.#pipe !== undefined) return;
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
      if (this.#isAnswered || this.#pipe?.writableEnded === true) return;
      // It has broken off.
      this.#isAnswered = true;
      this.#stream?.terminate();
      this.#pipe?.destroy();
    });
  }

  setHeld(isHeld: boolean): void {
    if (isHeld === this.#isHeld) return;
    this.#isHeld = isHeld;
    if (isHeld) this.#options.request.pause();
    else this.#options.request.resume();
  }

  abandon(status: number): void {
    this.#answer(status);
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
    if (this.#pipe !== undefined && !this.#isAnswered) return this.#pass(chunk);
    if (this.#size > this.#options.maxSize) return this.#fail(413, CloseCode.TOO_LARGE);
    // Chunks after an answer are read and dropped.
    if (this.#isAnswered) return;
    if (this.#stream === undefined) this.#begun.push(chunk);
    try {
      this.#reader.push(chunk);
    } catch (error) {
      if (this.#pipe !== undefined) return;
      const isLong = isProtocolError(error) && error.code === 'message_too_large';
      this.#fail(isLong ? 413 : 400, isLong ? CloseCode.TOO_LARGE : CloseCode.BAD_FRAME);
      if (!isProtocolError(error)) throw error;
    }
    if (this.#stream !== undefined) this.#stream.handleData(chunk.length);
    else if (this.#pipe === undefined && this.#size > MAX_FIRST) this.#answer(404);
  }

  /** To the node of the stream. */
  #pass(chunk: Buffer): void {
    if (this.#pipe?.write(chunk) === false) this.setHeld(true);
  }

  #handleRecord(frame: Uint8Array): void {
    if (this.#isAnswered || this.#pipe !== undefined) return;
    if (this.#stream !== undefined) {
      this.#frames++;
      return this.#stream.handleRecord(frame);
    }
    const found = this.#options.find(frame);
    if (typeof found === 'number') return this.#answer(found);
    if (found instanceof Duplex) {
      this.#pipe = found;
      found.on('drain', () => this.setHeld(false));
      found.on('data', (status: Buffer) => this.#answer(statusOf(status.toString())));
      found.on('close', () => this.abandon(404));
      for (const chunk of this.#begun.splice(0)) this.#pass(chunk);
      return;
    }
    this.#begun.length = 0;
    this.#stream = found;
    found.begin(this);
  }

  #handleEnd(): void {
    if (this.#isAnswered) return;
    if (this.#pipe !== undefined) return void this.#pipe.end();
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
    if (this.#pipe?.writableEnded === false) this.#pipe.destroy();
    this.#options.onEnd(status, this.#pipe !== undefined);
  }
}

/** The status of another node's answer. */
function statusOf(text: string): number {
  return /^[2-5]\d\d$/.test(text) ? Number(text) : 502;
}
