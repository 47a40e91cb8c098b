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
/** Milliseconds until the head of a stream, which a server sends at once. Each one that does not come doubles them. */
const FIRST_PATIENCE_MS = 5_000;
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
  /** Of each stream: the page goes away for good. The waiting messages are sent at once, and are the last. */
  readonly leaving: Set<() => void>;
  /** A server has accepted the session before, so a stream that does not open is followed by another. */
  readonly isAccepted: () => boolean;
  /**
   * Asked before each stream. Resolves to what to call when it is over, or to why there may be none. Pages have it.
   *
   * @param onFreeze ends the stream.
   */
  readonly admit?: ((url: URL, onFreeze: () => void) => Promise<(() => void) | string>) | undefined;
}

/** Each connection is one streamed response of HTTP, and requests up beside it. */
export function httpStreams(options: HttpOptions, clock: Pick<Clock, 'after'>): ClientTransport {
  const patience = { ms: FIRST_PATIENCE_MS };
  return {
    name: 'http',
    open: (url, hello, events) => openStream(options, clock, patience, url, hello(), events),
    ifSilent: 'a proxy that gathers answers gives none',
  };
}

function openStream(
  options: HttpOptions,
  clock: Pick<Clock, 'after'>,
  patience: { ms: number },
  url: URL,
  hello: Frame | undefined,
  events: ConnectionEvents,
): Wire {
  const abort = new AbortController();
  /** Of the server's connection; `undefined` until it is open. */
  let key: Uint8Array | undefined;
  let number = 0;
  /** Frames that wait. */
  const queue: Uint8Array[] = [];
  let waiting = 0;
  /** Bytes of the request that is under way. */
  let posted = 0;
  let isScheduled = false;
  /** The last frame that waits only acknowledges, and a later one takes its place. */
  let endsInAck = false;
  let cancelAck: (() => void) | undefined;
  let cancelClosing: (() => void) | undefined;
  let received = 0;
  /** A close, which follows the frames. */
  let tail: Uint8Array | undefined;
  let isLeaving = false;
  /** Nothing may follow what was sent. */
  let isLast = false;
  let isOver = false;
  let release: (() => void) | undefined;
  let cancelSilence: (() => void) | undefined;
  /** The server ends what is under way. */
  let isEnding = false;
  let uploading: Promise<void> | undefined;

  const end = (code: number, reason: string, failure = '', cause?: unknown): void => {
    if (isOver) return;
    isOver = true;
    options.leaving.delete(leave);
    cancelAck?.();
    cancelClosing?.();
    cancelSilence?.();
    release?.();
    // Node's `fetch` opens a connection in place of each one whose request it aborts.
    if (isEnding || code !== CloseCode.ABNORMAL)
      void Promise.all([listening, uploading]).then(clock.after(CLOSING_MS, () => abort.abort()));
    else abort.abort();
    events.onClose(code, reason, () => connectionFailure(url, `over HTTP: ${failure}`, cause));
  };
  const terminate = (): void => end(CloseCode.ABNORMAL, '');

  const listen = async (body: Uint8Array<ArrayBuffer>): Promise<void> => {
    let reason = 'no answer';
    let cause: unknown;
    try {
      const admitted = await options.admit?.(url, terminate);
      if (typeof admitted === 'string') return end(CloseCode.RATE_LIMITED, '', admitted);
      if (isOver) return admitted?.();
      release = admitted;
      // Node's `fetch` may wait for ever if its connection is accepted and closed at once.
      if (options.isAccepted())
        cancelSilence = clock.after(patience.ms, () => {
          patience.ms *= 2;
          terminate();
        });
      const response = await post('stream', body, false);
      cancelSilence?.();
      patience.ms = FIRST_PATIENCE_MS;
      const reader = response.body?.getReader();
      // Some servers have a page for each path.
      const isText = response.headers.get('content-type')?.startsWith('text/');
      if (!response.ok || isText || reader === undefined) reason = `answered with HTTP ${response.status}`;
      else {
        const records = new RecordReader(options.maxRecord, {
          onRecord(frame) {
            if (isOver) return;
            if (key !== undefined) return events.onMessage(frame);
            key = frame;
            events.onOpen(body.length > 0);
          },
          onClose: (code, why) => end(code, why),
        });
        for (let read = await reader.read(); !read.done; read = await reader.read()) {
          received += read.value.length;
          records.push(read.value);
        }
      }
    } catch (error) {
      cause = error;
      // The browser ends the response of a page that goes away before the page can say its last words.
      await new Promise<void>((resolve) => clock.after(0, resolve));
    }
    end(CloseCode.ABNORMAL, '', reason, cause);
  };

  /** Frames of one task go together. An acknowledgement would cost a request by itself, and waits for something else to send. */
  const schedule = (): void => {
    const isAlone = endsInAck && queue.length === 1 && tail === undefined;
    const isLazy = isAlone && received < MAX_UNACKNOWLEDGED;
    if (isLazy) cancelAck ??= clock.after(LAZY_MS, flush);
    if (isLazy || isScheduled) return;
    isScheduled = true;
    soon(() => {
      isScheduled = false;
      flush();
    });
  };

  const flush = (): void => {
    const hasNone = queue.length === 0 && tail === undefined;
    const mustWait = posted > 0 && !isLeaving;
    if (mustWait || key === undefined || hasNone || isLast || isOver) return;
    cancelAck?.();
    cancelAck = undefined;
    received = 0;
    const head = new Uint8Array(4 + key.length);
    new DataView(head.buffer).setUint32(0, ++number, true);
    head.set(key, 4);
    const frames = [head];
    posted = 0;
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      if (posted > 0 && posted + next.length > MAX_GATHERED) break;
      posted += next.length;
      frames.push(next as Uint8Array<ArrayBuffer>);
      queue.shift();
    }
    waiting -= posted;
    posted += head.length;
    const isRest = queue.length === 0 || isLeaving;
    isLast = isRest && tail !== undefined;
    if (isRest) endsInAck = false;
    uploading = upload(encodeRecords(frames, isRest ? tail : undefined));
  };

  const upload = async (body: Uint8Array<ArrayBuffer>): Promise<void> => {
    const closes = isLast;
    try {
      const { status } = await post('frames', body, closes);
      isEnding = closes && status === TAKEN;
      if (status !== TAKEN || closes) terminate();
    } catch {
      terminate();
    }
    posted = 0;
    if (isOver) return;
    events.onWritable();
    schedule();
  };

  /** @param outlivesPage the request is sent although the page goes away. */
  const post = async (
    name: string,
    body: Uint8Array<ArrayBuffer>,
    outlivesPage: boolean,
  ): Promise<Response> => {
    const to = new URL(url);
    to.protocol = to.protocol.replace('ws', 'http');
    to.pathname += `/${name}`;
    const { location } = globalThis as { location?: { readonly origin: string } };
    const isForeign = location !== undefined && location.origin !== to.origin;
    // Browsers send no more than that for a page that is gone, and fail a larger one at once.
    const keepalive = outlivesPage && body.length < MAX_GATHERED;
    const ask = () =>
      fetch(to, {
        method: 'POST',
        // With the other type, a browser would ask the server of another origin first.
        headers: { 'content-type': isForeign ? 'text/plain' : 'application/octet-stream' },
        body,
        // A stream that ends with its page does not take the last request with it.
        signal: outlivesPage ? AbortSignal.timeout(CLOSING_MS) : abort.signal,
        // An answer of another status than expected; Workers know no other way to follow none.
        redirect: 'manual',
        // Not every runtime without pages knows these.
        ...(location !== undefined && { credentials: 'include', cache: 'no-store', keepalive }),
      });
    try {
      return await ask();
    } catch (error) {
      // Node's `fetch` has taken a connection that was closed or reset just then. Browsers repeat such a request by themselves.
      const { cause } = error as { cause?: { code?: string; socket?: { bytesRead: number } } };
      if (!(cause?.socket?.bytesRead || /RESET|PIPE/.test(`${cause?.code}`))) throw error;
      return await ask();
    }
  };

  const leave = (): void => {
    isLeaving = true;
    // By then, the messages of this task are in the queue.
    soon(() => {
      tail ??= encodeClose(CloseCode.GOING_AWAY, '');
      flush();
    });
  };
  options.leaving.add(leave);
  const listening = listen(hello === undefined ? new Uint8Array() : encodeRecords([hello as Uint8Array]));
  return {
    highWater: MAX_GATHERED,
    get bufferedAmount() {
      return waiting + posted;
    },
    send(frame) {
      if (isOver || tail !== undefined) return;
      const isAck = frame[0] === ACK;
      if (isAck && endsInAck) waiting -= queue.pop()?.length ?? 0;
      endsInAck = isAck;
      // Its memory may be used again.
      queue.push(copyBytes(frame as Uint8Array));
      waiting += frame.length;
      schedule();
    },
    close(code, reason) {
      if (isOver || tail !== undefined) return;
      if (key === undefined) return terminate();
      tail = encodeClose(code, reason);
      cancelClosing = clock.after(CLOSING_MS, terminate);
      flush();
    },
    terminate,
  };
}
