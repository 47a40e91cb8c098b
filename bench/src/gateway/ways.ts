import { Agent, request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { connect } from '@parlance/client';
import WebSocket from 'ws';

/** Two ways to the same API, each over one connection whose bytes are counted at its socket. */
export interface Way {
  /** @param body JSON text of a request for a streamed chat completion; compressed if the headers say so. */
  ask(body: string | Uint8Array<ArrayBuffer>): Promise<Answer>;
  /** Bytes on the socket since it was opened: including headers and frames, excluding TCP's own. */
  bytes(): Traffic;
  /** Breaks the connection, like a machine that loses power. */
  lose(): void;
  close(): Promise<void>;
}

export interface Answer {
  /** Milliseconds from the request to the first byte of the body. */
  readonly firstMs: number;
  /** Reads the body to its end. @param onChunk called with each piece, the first one too. */
  drain(onChunk?: (chunk: Uint8Array) => void): Promise<void>;
  abort(): void;
}

export interface Traffic {
  readonly sent: number;
  readonly received: number;
}

const PATH = '/chat/completions';
const NEVER_MS = 2 ** 31 - 1;

/** HTTP/1.1 with keep-alive, as SDKs use it. @param headers in addition to an SDK's, or in place of them. */
export function openDirect(baseUrl: string, headers: Readonly<Record<string, string>> = {}): Way {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let socket: Socket | undefined;
  const earlier = { sent: 0, received: 0 };
  const follow = (next: Socket) => {
    if (next === socket) return;
    earlier.sent += socket?.bytesWritten ?? 0;
    earlier.received += socket?.bytesRead ?? 0;
    socket = next;
  };
  return {
    ask: (body) =>
      new Promise((resolve, reject) => {
        const start = performance.now();
        const request = httpRequest(`${baseUrl}${PATH}`, {
          method: 'POST',
          agent,
          headers: { ...SDK_HEADERS, ...headers, 'content-length': Buffer.byteLength(body) },
        });
        request.on('socket', follow);
        request.on('error', reject);
        request.on('response', (response) => {
          response.on('error', () => {});
          response.once('data', (first: Buffer) => {
            resolve({
              firstMs: performance.now() - start,
              drain: (onChunk = () => {}) =>
                new Promise((settle) => {
                  onChunk(first);
                  response.on('data', onChunk).resume().once('end', settle);
                }),
              abort: () => request.destroy(),
            });
            response.pause();
          });
        });
        request.end(body);
      }),
    bytes: () => ({
      sent: earlier.sent + (socket?.bytesWritten ?? 0),
      received: earlier.received + (socket?.bytesRead ?? 0),
    }),
    lose: () => socket?.destroy(),
    close: async () => agent.destroy(),
  };
}

/** The headers that the `openai` package sends in Node, so that only realistic bytes are counted. */
const SDK_HEADERS = {
  accept: 'application/json',
  'content-type': 'application/json',
  'user-agent': 'OpenAI/JS 6.49.0',
  'x-stainless-retry-count': '0',
  'x-stainless-timeout': '600',
  'x-stainless-lang': 'js',
  'x-stainless-package-version': '6.49.0',
  'x-stainless-os': 'Linux',
  'x-stainless-arch': 'x64',
  'x-stainless-runtime': 'node',
  'x-stainless-runtime-version': 'v24.21.0',
  authorization: `Bearer sk-proj-${'0'.repeat(156)}`,
  'accept-language': '*',
  'sec-fetch-mode': 'cors',
  'accept-encoding': 'gzip, deflate',
} as const;

/** `session.fetch` over one session. */
export async function openSession(url: string): Promise<Way> {
  let socket: Socket | undefined;
  class Watched extends WebSocket {
    constructor(address: string, protocols: string[]) {
      super(address, protocols);
      this.on('upgrade', (response) => {
        socket = response.socket;
      });
    }
  }
  const session = await connect(url, {
    WebSocket: Watched,
    // With any jitter, it does not reconnect.
    reconnect: { minDelayMs: NEVER_MS, maxDelayMs: NEVER_MS },
  });
  return {
    async ask(body) {
      const controller = new AbortController();
      const start = performance.now();
      const { body: stream } = await session.fetch(`/v1${PATH}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        signal: controller.signal,
      });
      const reader = (stream as ReadableStream<Uint8Array>).getReader();
      const { value: first } = await reader.read();
      return {
        firstMs: performance.now() - start,
        async drain(onChunk = () => {}) {
          for (let value = first; value !== undefined; { value } = await reader.read()) onChunk(value);
        },
        abort: () => controller.abort(),
      };
    },
    bytes: () => ({ sent: socket?.bytesWritten ?? 0, received: socket?.bytesRead ?? 0 }),
    lose: () => socket?.destroy(),
    async close() {
      await session.close();
    },
  };
}
