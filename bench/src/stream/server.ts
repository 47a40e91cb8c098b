import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadEncoding } from '@parlance/protocol';
import { createServer } from '@parlance/server';
import { WebSocketServer } from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { answerTokens, answerWithEvents, chunkOf, textsOf } from '../context/chunks.js';
import { cpuTime } from '../process/cpu.js';
import { countTraffic } from '../process/sockets.js';

/**
 * A model that answers every request with the same tokens, in a process of its own: over a session, over a
 * bare `ws` server that sends a message per token, and as server-sent events.
 */

const [count, intervalMs, batchBytes] = process.argv.slice(2).map(Number) as [number, number, number];
const encoding = await loadEncoding('CL100K_BASE');
const ids = answerTokens(encoding, count);
const chunks = textsOf(encoding, ids).map(chunkOf);

/** The tokens at the pace of a model, or as fast as the receiver takes them. */
async function* generate(isPaced: boolean): AsyncGenerator<number> {
  const start = performance.now();
  for (const [i, id] of ids.entries()) {
    const wait = start + i * intervalMs - performance.now();
    if (isPaced && wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    yield id;
  }
}

const http = {
  session: createHttpServer(),
  ws: createHttpServer(),
  sse: createHttpServer(answerWithEvents(chunks)),
} satisfies Record<string, HttpServer>;
export type Far = keyof typeof http;

createServer({
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  async *onRequest({ text }, { setBatch }) {
    if (text === 'chunks') {
      yield* chunks;
      return;
    }
    if (text === 'batched') setBatch({ ms: 1000, bytes: batchBytes });
    for await (const id of generate(text === 'paced')) yield { tokens: [id] };
  },
}).attach(http.session);

new WebSocketServer({ server: http.ws, perMessageDeflate: false }).on('connection', (socket) => {
  socket.on('message', async (data: Buffer) => {
    const isPaced = data.toString() === 'paced';
    for await (const id of generate(isPaced))
      socket.send(Uint8Array.of(id & 0xff, (id >> 8) & 0xff, id >> 16));
    socket.send('end');
  });
});

const traffic = {
  session: countTraffic(http.session),
  ws: countTraffic(http.ws),
  sse: countTraffic(http.sse),
};
for (const server of Object.values(http)) {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
}

const commands = {
  port: (far: Far) => (http[far].address() as AddressInfo).port,

  ids: () => [...ids],

  chunks: () => chunks,

  written: (far: Far) => traffic[far]().written,

  cpu: cpuTime,
};
export type ModelCommands = typeof commands;

offer(commands);
