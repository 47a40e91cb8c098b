import { Gzip } from 'fflate';
import { createTurn, whenIdle } from '../shared/slices.js';

/**
 * Size of exchanges as plain HTTP/1.1: start lines, the header fields that were set, and bodies. Headers that
 * a browser adds (user agent, cookies, accept) and the framing of TLS are left out. A response comes in chunks, one for each piece.
 */
export interface PlainHttpSize {
  /** Bytes of the requests. */
  sent: number;
  /** Bytes of the responses so far. */
  received: number;
  /** The same with compressed bodies; a response is flushed after each event, as a stream must be. */
  readonly gzip: { sent: number; received: number };
  /** Compresses what has arrived and was not compressed yet. Set once there is a response. */
  settle?: (() => Promise<void>) | undefined;
}

const utf8 = new TextEncoder();
const sizeOf = (text: string) => utf8.encode(text).length;
const ENCODED = sizeOf('content-encoding: gzip\r\n');
/** As servers have it by default. */
const LEVEL = 6;
const NOTHING = new Uint8Array();

/**
 * A `fetch` that adds the size of each exchange to `size`. Measures only text bodies.
 *
 * @param onPiece called with each piece of the body of a response, before its reader has it.
 */
export function measureFetch(
  fetch: typeof globalThis.fetch,
  size: PlainHttpSize,
  onPiece: (piece: Uint8Array) => void = () => {},
): typeof globalThis.fetch {
  return async (input, init) => {
    const body = typeof init?.body === 'string' ? utf8.encode(init.body) : NOTHING;
    const head = headSize(String(input instanceof Request ? input.url : input), body.length, init);
    size.sent += head + body.length;
    size.gzip.sent += head;
    if (body.length > 0) {
      size.gzip.sent += ENCODED;
      createGzip((length) => {
        size.gzip.sent += length;
      }).push(body, true);
    }
    const response = await fetch(input, init);
    const answered =
      sizeOf(`HTTP/1.1 ${response.status} ${response.statusText}\r\n`) + headersSize(response.headers);
    size.received += answered;
    size.gzip.received += answered;
    if (response.body === null) return response;
    size.gzip.received += ENCODED;
    const meter = createMeter((length) => {
      size.gzip.received += length;
    });
    size.settle = meter.settle;
    const counted = response.body.pipeThrough(
      new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
        transform(chunk, controller) {
          size.received += chunkOf(chunk.length);
          meter.push(chunk);
          onPiece(chunk);
          controller.enqueue(chunk);
        },
        flush() {
          meter.push(undefined);
          size.received += LAST_CHUNK;
        },
      }),
    );
    return new Response(counted, response);
  };
}

interface Meter {
  /** @param chunk of the response; `undefined` at its end. */
  push(chunk: Uint8Array | undefined): void;
  /** Compresses at once what waits, in slices of time: at its first pause, the first of them is done. */
  settle(): Promise<void>;
}

/**
 * Compresses a response while the page is idle, flushed after each of its chunks: to compress a chunk takes longer than to show it.
 *
 * @param onChunk called with the length of each compressed chunk, with its framing.
 */
function createMeter(onChunk: (length: number) => void): Meter {
  const waiting: (Uint8Array | undefined)[] = [];
  let done = 0;
  let isWaiting = false;
  // A compressor hands out what it flushes in several pieces, which a server writes as one chunk.
  let flushed = 0;
  const gzip = createGzip((length) => {
    flushed += length;
  });
  const compress = () => {
    const chunk = waiting[done];
    waiting[done++] = undefined;
    gzip.push(chunk ?? NOTHING, chunk === undefined);
    if (chunk !== undefined) gzip.flush(true);
    onChunk(chunkOf(flushed) + (chunk === undefined ? LAST_CHUNK : 0));
    flushed = 0;
  };
  const work = (remaining: () => number) => {
    while (done < waiting.length) {
      // One at least: some browsers give no time at all.
      compress();
      if (remaining() <= 0) break;
    }
    isWaiting = done < waiting.length;
    if (isWaiting) whenIdle(work);
  };
  return {
    push(chunk) {
      waiting.push(chunk);
      if (!isWaiting) whenIdle(work);
      isWaiting = true;
    },
    async settle() {
      const turn = createTurn();
      while (done < waiting.length) {
        compress();
        const pause = turn();
        if (pause !== undefined) await pause;
      }
    },
  };
}

/** A chunk of this many bytes, with its length in hexadecimal digits and two line ends. */
function chunkOf(length: number): number {
  return length === 0 ? 0 : length.toString(16).length + 4 + length;
}

/** `0` and two line ends. */
const LAST_CHUNK = 5;

/** @param onBytes called with the number of compressed bytes, whenever there are some. */
function createGzip(onBytes: (length: number) => void): Gzip {
  return new Gzip({ level: LEVEL }, (compressed) => onBytes(compressed.length));
}

function headSize(address: string, length: number, { method = 'GET', headers }: RequestInit = {}): number {
  const { host, pathname, search } = new URL(address);
  const own = new Headers(headers);
  own.set('host', host);
  own.set('content-length', String(length));
  return sizeOf(`${method} ${pathname}${search} HTTP/1.1\r\n`) + headersSize(own);
}

function headersSize(headers: Headers): number {
  return [...headers].reduce((sum, [name, value]) => sum + sizeOf(`${name}: ${value}\r\n`), sizeOf('\r\n'));
}
