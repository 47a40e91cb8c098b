import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadEncoding } from '@parlance/protocol';
import { createServer, keptReplies, metrics } from '@parlance/server';
import { offer } from '../../../scripts/child-process.js';
import { answerTokens } from '../context/chunks.js';
import { cpuTime } from '../process/cpu.js';
import { settledMemory } from '../process/memory.js';
import { countTraffic } from '../process/sockets.js';

/**
 * A server that answers with the same stream, kept or not. The request says how: `kept` or `plain`, the number of
 * parts, milliseconds between two of them, and the bytes of a batch.
 */

const encoding = await loadEncoding('CL100K_BASE');
const ids = answerTokens(encoding, 2_000);
const PART = 'word ';

const http = createHttpServer();
const unlimited = {
  maxReplies: Infinity,
  maxOwnerBytes: Infinity,
  maxBytes: Infinity,
  maxReplyBytes: Infinity,
};
const server = createServer({
  limits: {
    messagesPerMinute: Infinity,
    bytesPerSecond: Infinity,
    sessionsPerIp: Infinity,
    sessionsPerPrincipal: Infinity,
    sessionsPerMinutePerIp: Infinity,
    connectionsPerMinutePerIp: Infinity,
  },
  authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
  features: [metrics(), keptReplies(unlimited)],
  async *onRequest({ text }, { keep, setBatch }) {
    const [kept, kind, count, interval, batch] = text.split(' ');
    if (kept === 'kept') keep({ name: 'bench' });
    if (Number(batch) > 0) setBatch({ ms: 1_000, bytes: Number(batch) });
    const start = performance.now();
    for (let i = 0; i < Number(count); i++) {
      const wait = start + i * Number(interval) - performance.now();
      if (Number(interval) > 0 && wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      if (kind === 'time') yield String(performance.timeOrigin + performance.now());
      else yield kind === 'tokens' ? { tokens: [ids[i % ids.length] as number] } : PART;
    }
  },
});
server.attach(http);
const page = await server.listenMetrics();
await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
const { port } = http.address() as AddressInfo;
const traffic = countTraffic(http);

const commands = {
  port: () => port,
  cpu: cpuTime,
  written: () => traffic().written,
  /** Bytes of heap and buffers in use. */
  async memory(): Promise<number> {
    const { heapUsed, external } = await settledMemory();
    return heapUsed + external;
  },
  /** Bytes of kept replies by the server's own account. */
  async accounted(): Promise<number> {
    const text = await (await fetch(page.url)).text();
    return Number(/^parlance_replies_kept_bytes (\S+)$/m.exec(text)?.[1]);
  },
};
export type FollowServerCommands = typeof commands;

offer(commands);
