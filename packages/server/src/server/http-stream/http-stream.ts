import type { ServerResponse } from 'node:http';
import { copyBytes } from '@parlance/protocol/internal';
import { encodeClose, encodeRecords, KEEP_ALIVE } from '@parlance/protocol/records';
import { Reading } from '../../transport/reading.js';
import { type Transport, type TransportEvents, terminateSoon } from '../../transport/transport.js';

/** Proxies cut a connection that is silent for a minute; Node's `fetch` does so after five. */
export const KEEP_ALIVE_MS = 25_000;
/** A page that is left says CLOSE in a request beside the response, which its browser may end first. */
const LAST_WORDS_MS = 1_000;
/** The answer to a request up: all of it was taken, or was taken before. */
export const TAKEN = 204;
/** The code of a connection that ends without a closing handshake. */
const ABNORMAL = 1006;
/** Bytes around a message: its length, and its share of the key and the number of a request. */
const AROUND = 128;

/** A body whose records go to a stream. */
export interface Flow {
  /** Whether to stop reading. */
  setHeld(isHeld: boolean): void;
  /** The stream is over. @param status of the answer. */
  abandon(status: number): void;
}

export interface HttpStreamOptions {
  readonly response: ServerResponse;
  readonly headers: Readonly<Record<string, string>>;
  /** The first record, by which requests up find the stream. */
  readonly key: Uint8Array;
  /** Of the page that has opened it; requests up have the same one. */
  readonly origin: string | undefined;
  /** Milliseconds after a close in which the client has to read it. */
  readonly closeTimeoutMs: number;
  readonly onOver: () => void;
}

/**
 * A connection over HTTP: frames go down in one response without an end, and come up in requests, one after the other. Frames of one turn
 * of the event loop are written together.
 */
export class HttpStream extends Reading implements Transport {
  readonly traffic = { sent: 0, received: 0 };
  readonly overhead = AROUND;
  /** A request to stop must not wait behind more than that. */
  readonly highWater = 64 * 1024;
  readonly options: HttpStreamOptions;
  /** Requests up that have arrived whole. */
  taken = 0;
  #events: TransportEvents | undefined;
  #frames: Uint8Array[] = [];
  #waiting = 0;
  #writtenAt = 0;
  /** HELLO's request has arrived: some clients read no answer before. */
  #isOpen = false;
  #closing: Uint8Array | undefined;
  #isOver = false;
  /** Nothing that comes counts any more. */
  #isTerminated = false;
  #flow: Flow | undefined;

  constructor(options: HttpStreamOptions) {
    super();
    this.options = options;
    const { response, key } = options;
    response.on('drain', () => this.#events?.onDrain());
    response.on('close', () => {
      if (this.#isTerminated || this.#closing !== undefined) return this.over(ABNORMAL, '');
      setTimeout(() => this.over(ABNORMAL, ''), LAST_WORDS_MS).unref();
    });
    // The event of a close follows.
    response.on('error', () => response.destroy());
    this.#frames.push(key);
  }

  get bufferedAmount(): number {
    return this.#waiting + this.options.response.writableLength;
  }

  listen(events: TransportEvents): void {
    this.#events = events;
  }

  send(frame: Uint8Array | string): void {
    if (this.#closing !== undefined || this.#isOver) return;
    const bytes = typeof frame === 'string' ? Buffer.from(frame) : frame;
    if (this.#isOpen && this.#frames.length === 0) process.nextTick(() => this.#flush());
    // The memory of a frame may be used again at the end of the turn.
    this.#frames.push(this.#isOpen ? bytes : copyBytes(bytes));
    this.#waiting += bytes.length;
  }

  /** The first answer may be written. */
  open(now: number): void {
    if (this.#isOpen || this.#isOver) return;
    this.#isOpen = true;
    this.#writtenAt = now;
    const { response, headers } = this.options;
    // Chunks cost each frame 6 bytes, and some proxies hold them back: the response ends with its connection.
    response.useChunkedEncodingByDefault = false;
    response.shouldKeepAlive = false;
    response.writeHead(200, headers);
    response.socket?.setNoDelay(true);
    this.#flush();
    if (this.#closing !== undefined) response.end(this.#closing);
  }

  keepAlive(now: number): void {
    if (!this.#isOpen || this.#closing !== undefined || now < this.#writtenAt + KEEP_ALIVE_MS) return;
    this.#writtenAt = now;
    this.#write(KEEP_ALIVE);
  }

  #flush(): void {
    if (this.#frames.length === 0 || this.#isOver) return;
    const records = encodeRecords(this.#frames);
    this.#frames = [];
    this.#waiting = 0;
    this.#write(records);
  }

  #write(bytes: Uint8Array): void {
    this.traffic.sent += bytes.length;
    this.options.response.write(bytes);
  }

  close(code: number, reason: string): void {
    if (this.#closing !== undefined || this.#isOver) return;
    this.#closing = encodeClose(code, reason);
    if (this.options.response.destroyed) return this.over(ABNORMAL, '');
    setTimeout(() => this.terminate(), this.options.closeTimeoutMs).unref();
    if (!this.#isOpen) return;
    this.#flush();
    this.options.response.end(this.#closing);
  }

  terminate(): void {
    this.#isTerminated = true;
    // If the client has ended it, no event follows.
    if (this.options.response.destroyed) this.over(ABNORMAL, '');
    else this.options.response.destroy();
  }

  /** @param code of the client; {@link ABNORMAL} if it has closed nothing. */
  over(code: number, reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.options.onOver();
    // Frames behind the server's close are dropped without an error, which a browser would write to its console.
    this.#flow?.abandon(this.#closing === undefined ? 404 : TAKEN);
    if (this.#isOpen) this.options.response.end();
    terminateSoon(this);
    this.#events?.onClose(code, reason);
  }

  protected override setFlow(): void {
    this.#flow?.setHeld(this.isHeld);
  }

  // --- requests up

  get isTaking(): boolean {
    return this.#flow !== undefined;
  }

  begin(flow: Flow): void {
    this.#flow = flow;
    this.setFlow();
  }

  end(): void {
    this.#flow = undefined;
  }

  handleRecord(frame: Uint8Array): void {
    if (!this.#isOver) this.#events?.onMessage(frame, frame.length, true);
  }

  handleData(size: number): void {
    this.traffic.received += size;
    if (!this.#isOver) this.#events?.onData(size);
  }

  /** A request without a message. */
  handleControl(): void {
    if (!this.#isOver) this.#events?.onControl();
  }
}
