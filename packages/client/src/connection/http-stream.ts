import { type Clock, CloseCode, copyBytes, type Wire } from '@parlance/protocol/client';
import { encodeClose, encodeRecords, RecordReader } from '@parlance/protocol/records';
import { connectionFailure } from './cannot-connect.js';
import type { ClientTransport, ConnectionEvents, Frame } from './transport.js';

/** Bytes of frames for one request, except for the last frame. */
const MAX_GATHERED = 64 * 1024;
/** Bytes that may arrive before an acknowledgement is due at once: a quarter of what a server keeps for this client. */
const MAX_UNACKNOWLEDGED = 64 * 1024;
/** Milliseconds that an acknowledgement waits for a frame to go with. */
const LAZY_MS = 1_000;
/** Milliseconds in which the server has to read why a connection is closed. */
const CLOSING_MS = 1_000;
/** The first byte of a link frame that acknowledges all frames so far. */
const ACK = 0x18;
const TAKEN = 204;

/** Node's `fetch` opens another connection for a request that comes in the tick of the event loop in which the last one is answered. */
const { setImmediate: soon = queueMicrotask } = globalThis as { setImmediate?: (run: () => void) => void };

export interface HttpOptions {
  /** Bytes of a frame of the server, at most. */
  readonly maxRecord: number;
  /** The page goes away for good: what is sent now is sent at once, and is the last. @default false */
  isLeaving?: boolean;
  /**
   * Asked before each stream. Resolves to what to call when it is over, or to why there may be none. Pages have it.
   *
   * @param onFreeze ends the stream.
   */
  readonly admit?: ((url: URL, onFreeze: () => void) => Promise<(() => void) | string>) | undefined;
}

/** Each connection is one streamed response of HTTP, and requests up beside it. */
export function httpStreams(options: HttpOptions, clock: Pick<Clock, 'after'>): ClientTransport {
  return {
    name: 'http',
    open: (url, hello, events) => new HttpWire(options, clock, url, hello(), events),
    ifSilent: 'a proxy that gathers answers gives none',
  };
}

class HttpWire implements Wire {
  readonly highWater = MAX_GATHERED;
  readonly #options: HttpOptions;
  readonly #clock: Pick<Clock, 'after'>;
  readonly #url: URL;
  readonly #events: ConnectionEvents;
  readonly #abort = new AbortController();
  /** Of the server's connection; `undefined` until it is open. */
  #key: Uint8Array | undefined;
  #number = 0;
  /** Frames that wait. */
  readonly #queue: Uint8Array[] = [];
  #waiting = 0;
  /** Bytes of the request that is under way. */
  #posted = 0;
  #isScheduled = false;
  /** The last frame that waits only acknowledges, and a later one takes its place. */
  #endsInAck = false;
  #cancelAck: (() => void) | undefined;
  #received = 0;
  /** A close, which follows the frames. */
  #tail: Uint8Array | undefined;
  #isOver = false;
  #release: (() => void) | undefined;

  constructor(
    options: HttpOptions,
    clock: Pick<Clock, 'after'>,
    url: URL,
    hello: Frame | undefined,
    events: ConnectionEvents,
  ) {
    this.#options = options;
    this.#clock = clock;
    this.#url = url;
    this.#events = events;
    void this.#listen(hello === undefined ? new Uint8Array() : encodeRecords([hello as Uint8Array]));
  }

  get bufferedAmount(): number {
    return this.#waiting + this.#posted;
  }

  async #listen(hello: Uint8Array<ArrayBuffer>): Promise<void> {
    let reason = 'no answer';
    let cause: unknown;
    try {
      const admitted = await this.#options.admit?.(this.#url, () => this.terminate());
      if (typeof admitted === 'string') return this.#end(CloseCode.RATE_LIMITED, '', admitted);
      if (this.#isOver) return admitted?.();
      this.#release = admitted;
      const response = await this.#post('stream', hello);
      const reader = response.body?.getReader();
      if (!response.ok || reader === undefined) reason = `the server answered with HTTP ${response.status}`;
      else {
        const records = new RecordReader(this.#options.maxRecord, {
          onRecord: (frame) => this.#handleRecord(frame, hello.length > 0),
          onClose: (code, why) => this.#end(code, why),
        });
        for (let read = await reader.read(); !read.done && !this.#isOver; read = await reader.read()) {
          this.#received += read.value.length;
          records.push(read.value);
        }
      }
    } catch (error) {
      cause = error;
    }
    this.#end(CloseCode.ABNORMAL, '', reason, cause);
  }

  #handleRecord(frame: Uint8Array, isSaid: boolean): void {
    if (this.#isOver) return;
    if (this.#key !== undefined) return this.#events.onMessage(frame);
    this.#key = frame;
    this.#events.onOpen(isSaid);
  }

  send(frame: Frame): void {
    if (this.#isOver || this.#tail !== undefined) return;
    const isAck = frame[0] === ACK;
    if (isAck && this.#endsInAck) this.#waiting -= this.#queue.pop()?.length ?? 0;
    this.#endsInAck = isAck;
    // Its memory may be used again.
    this.#queue.push(copyBytes(frame as Uint8Array));
    this.#waiting += frame.length;
    this.#schedule();
  }

  /** Frames of one task go together. An acknowledgement would cost a request by itself, and waits for something else to send. */
  #schedule(): void {
    const isAlone = this.#endsInAck && this.#queue.length === 1 && this.#tail === undefined;
    const isLazy = isAlone && this.#received < MAX_UNACKNOWLEDGED;
    if (isLazy) this.#cancelAck ??= this.#clock.after(LAZY_MS, () => this.#flush());
    if (isLazy || this.#isScheduled) return;
    this.#isScheduled = true;
    soon(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    const queue = this.#queue;
    const hasNone = queue.length === 0 && this.#tail === undefined;
    const { isLeaving } = this.#options;
    if ((this.#posted > 0 && !isLeaving) || this.#key === undefined || hasNone || this.#isOver) return;
    this.#cancelAck?.();
    this.#cancelAck = undefined;
    this.#received = 0;
    const head = new Uint8Array(4 + this.#key.length);
    new DataView(head.buffer).setUint32(0, ++this.#number, true);
    head.set(this.#key, 4);
    const frames = [head];
    this.#posted = 0;
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      if (this.#posted > 0 && this.#posted + next.length > MAX_GATHERED) break;
      this.#posted += next.length;
      frames.push(next as Uint8Array<ArrayBuffer>);
      queue.shift();
    }
    this.#waiting -= this.#posted;
    this.#posted += head.length;
    if (queue.length === 0) this.#endsInAck = false;
    const tail = this.#tail ?? (isLeaving ? encodeClose(CloseCode.GOING_AWAY, '') : undefined);
    void this.#send(frames, queue.length === 0 ? tail : undefined);
  }

  async #send(frames: readonly Uint8Array[], tail: Uint8Array | undefined): Promise<void> {
    const isLast = tail !== undefined;
    try {
      const { status } = await this.#post('frames', encodeRecords(frames, tail), isLast);
      if (status !== TAKEN || isLast) this.terminate();
    } catch {
      this.terminate();
    }
    this.#posted = 0;
    if (this.#isOver) return;
    this.#events.onWritable();
    this.#schedule();
  }

  /** @param outlivesPage the request is sent although the page goes away. */
  async #post(name: string, body: Uint8Array<ArrayBuffer>, outlivesPage = false): Promise<Response> {
    const url = new URL(this.#url);
    url.protocol = url.protocol === 'wss:' ? 'https:' : 'http:';
    url.pathname += `/${name}`;
    const { location } = globalThis as { location?: { readonly origin: string } };
    const isForeign = location !== undefined && location.origin !== url.origin;
    return await fetch(url, {
      method: 'POST',
      // With the other type, a browser would ask the server of another origin first.
      headers: { 'content-type': isForeign ? 'text/plain' : 'application/octet-stream' },
      body,
      signal: this.#abort.signal,
      redirect: 'error',
      // Not every runtime without pages knows these.
      ...(location !== undefined && { credentials: 'include', cache: 'no-store', keepalive: outlivesPage }),
    });
  }

  close(code: number, reason: string): void {
    if (this.#isOver || this.#tail !== undefined) return;
    if (this.#key === undefined) return this.terminate();
    this.#tail = encodeClose(code, reason);
    this.#clock.after(CLOSING_MS, () => this.terminate());
    this.#flush();
  }

  terminate(): void {
    this.#end(CloseCode.ABNORMAL, '');
  }

  #end(code: number, reason: string, failure = '', cause?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelAck?.();
    this.#release?.();
    this.#abort.abort();
    this.#events.onClose(code, reason, () => connectionFailure(this.#url, `over HTTP: ${failure}`, cause));
  }
}
