import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadEncoding } from '@parlance/protocol';
import { createServer } from '@parlance/server';
import { WebSocketServer } from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { settledMemory } from '../process/memory.js';
import { countTraffic } from '../process/sockets.js';
import { UNLIMITED } from '../unlimited.js';
import { answerTokens, answerWithEvents, chunkOf, textsOf } from './chunks.js';

/**
 * The receiving side in three forms, in a process of its own: a session server, a WebSocket server with
 * permessage-deflate, and server-sent events over HTTP. Each answers `stream` with a streamed answer, and any
 * other request with an empty one.
 */

const CHUNKS = Number(process.argv[2]);
const encoding = await loadEncoding('CL100K_BASE');
const chunks = textsOf(encoding, answerTokens(encoding, CHUNKS)).map(chunkOf);

const http = {
  session: createHttpServer(),
  deflate: createHttpServer(),
  sse: createHttpServer(answerWithEvents(chunks)),
} satisfies Record<string, HttpServer>;
export type Far = keyof typeof http;

const sessions = createServer({
  limits: UNLIMITED,
  timers: { idleTimeoutMs: 3_600_000 },
  async onSession(session) {
    for await (const message of session) void message.bytes;
  },
  // The browser's page has another origin.
  origins: ['*'],
  async *onRequest({ text }) {
    if (text === 'stream') yield* chunks;
  },
});
sessions.attach(http.session);

new WebSocketServer({ server: http.deflate, perMessageDeflate: { threshold: 0 } }).on(
  'connection',
  (socket) => {
    socket.on('message', (data: Buffer) => {
      for (const text of data.toString() === 'stream' ? chunks : ['']) socket.send(text);
    });
  },
);

const traffic = {
  session: countTraffic(http.session),
  deflate: countTraffic(http.deflate),
  sse: countTraffic(http.sse),
};
for (const server of Object.values(http))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

const commands = {
  port: (far: Far) => (http[far].address() as AddressInfo).port,

  chunks: () => chunks,

  traffic: (far: Far) => traffic[far](),

  cpu: cpuTime,

  /** Bytes of received messages that all sessions keep. */
  kept(): number {
    let bytes = 0;
    for (const session of sessions.sessions.values()) bytes += session.stats().context?.received.bytes ?? 0;
    return bytes;
  },

  /** Bytes of heap and buffers after garbage collection. */
  async memory(): Promise<number> {
    const { heapUsed, arrayBuffers } = await settledMemory();
    return heapUsed + arrayBuffers;
  },
};
export type FarCommands = typeof commands;

offer(commands);
