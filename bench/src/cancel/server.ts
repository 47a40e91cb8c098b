import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer } from '@parlance/server';
import { WebSocketServer } from 'ws';
import { offer } from '../../../scripts/child-process.js';

/** Handlers that run until they are cancelled, and record when that was. */

const PART = 'some tokens of a reply ';
const PART_MS = 5;

const times = new Map<string, number>();
const waiting = new Map<string, (at: number) => void>();

function happened(tag: string): void {
  const at = Number(process.hrtime.bigint()) / 1e6;
  const resolve = waiting.get(tag);
  waiting.delete(tag);
  if (resolve === undefined) times.set(tag, at);
  else resolve(at);
}

const server = createServer({
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  async *onRequest(request, { signal }) {
    const tag = request.text;
    signal.addEventListener('abort', () => happened(tag));
    while (!signal.aborted) {
      yield PART;
      await sleep(PART_MS);
    }
  },
});
const { url } = await server.listen();

const plain = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
plain.on('connection', (webSocket) => {
  webSocket.on('message', (data: Buffer) => happened(data.toString()));
});
await new Promise((resolve) => plain.once('listening', resolve));

const commands = {
  urls: () => ({
    sessionUrl: url,
    plainUrl: `ws://127.0.0.1:${(plain.address() as AddressInfo).port}`,
  }),

  /** Monotonic milliseconds of an event; resolves once it has happened. */
  at(tag: string): Promise<number> {
    const at = times.get(tag);
    times.delete(tag);
    if (at !== undefined) return Promise.resolve(at);
    return new Promise((resolve) => waiting.set(tag, resolve));
  },
};
export type CancelServerCommands = typeof commands;

offer(commands);
