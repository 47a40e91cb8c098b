import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer, durable, keptReplies, memoryCluster } from '@parlance/server';
import type { Engine, SessionWrite } from '@parlance/server/engine';
import { postgres } from '@parlance/server/postgres';
import { redis } from '@parlance/server/redis';
import { sqlite } from '@parlance/server/sqlite';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { countTraffic } from '../process/sockets.js';
import { quantile } from '../statistics.js';
import { UNLIMITED } from '../unlimited.js';
import { DURABLE, type Wish } from './wish.js';

/** A server with one engine in a process of its own. Its sessions are durable or plain, and its replies kept or not. */

export type EngineName = 'memory' | 'sqlite' | 'redis' | 'postgres';

export interface NodeSetup {
  readonly engine: EngineName;
  /** The file or URL of the engine. */
  readonly at: string;
}

export interface Delays {
  readonly p50: number;
  readonly p99: number;
}

const { engine: name, at } = JSON.parse(process.argv[2] as string) as NodeSetup;
const ENGINES: Readonly<Record<EngineName, () => Engine>> = {
  memory: () => memoryCluster(),
  sqlite: () => sqlite(at),
  redis: () => redis({ url: at }),
  postgres: () => postgres(at),
};
const engine = ENGINES[name]();
const KEPT_MS = 5_000;
let parts = 0;

const http = createHttpServer();
const server = createServer({
  engine,
  features: [
    durable(({ principal }) => principal.startsWith(DURABLE), {
      allowVolatileEngine: true,
      maxPrincipalBytes: Infinity,
    }),
    keptReplies({ maxReplies: Infinity, maxOwnerBytes: Infinity, ttlMs: KEPT_MS }),
  ],
  limits: { ...UNLIMITED, sessionsPerPrincipal: Infinity },
  authenticate: ({ token = '' }) => ({ principal: token }),
  async *onRequest(request, { yielded, keep, ifProcessDies, signal }) {
    ifProcessDies('again');
    const wish = request.json<Wish>();
    if (wish.isKept) keep();
    for (let part = yielded.length; part < wish.parts && !signal.aborted; part++) {
      parts++;
      yield String(performance.timeOrigin + performance.now());
      await sleep(wish.paceMs);
    }
  },
});
server.attach(http);
await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
const { port } = http.address() as AddressInfo;
const traffic = countTraffic(http);

const link = engine.connect();
const SAID = new Uint8Array(100).fill(0x61);
const STATE = new Uint8Array(200).fill(0x62);
let written = 0;
let opened = 0;

/** Commits of one session, each with a message of 100 B and a state of 200 B, one after the other. */
async function* commits(): AsyncGenerator<void> {
  const id = `sess_turns${opened++}`;
  const text = (value: number) => new Uint8Array(Buffer.from(String(value)));
  for (let number = 1; ; number++) {
    const set = new Map([
      ['handled', text(number)],
      ['said', text(number)],
      [`m${number}`, SAID],
      ['state', STATE],
    ]);
    const write: SessionWrite = {
      ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, after: number - 1, ttlMs: 3_600_000 },
      ...{ set, remove: number > 1 ? [`m${number - 1}`] : [] },
    };
    const outcome = await link.writeSession(id, write);
    if (outcome !== 'written') throw new Error(`a commit was not written: ${JSON.stringify(outcome)}`);
    written++;
    yield;
  }
}
const writers: AsyncGenerator<void>[] = [];

const commands = {
  port: () => port,
  durable: () => [...server.sessions.values()].filter(({ isDurable }) => isDurable).length,
  mark: () => ({ cpuUs: cpuTime(), parts, written, wroteBytes: wroteBytes() - traffic().written }),
  /** So many sessions write one commit after the other for a while. Returns how long a commit took, in milliseconds. */
  async commit({ sessions, forMs }: { sessions: number; forMs: number }): Promise<Delays> {
    while (writers.length < sessions) writers.push(commits());
    const end = performance.now() + forMs;
    const times: number[] = [];
    const one = async (writer: AsyncGenerator<void>) => {
      for (let before = performance.now(); before < end; ) {
        await writer.next();
        const now = performance.now();
        times.push(now - before);
        before = now;
      }
    };
    await Promise.all(writers.slice(0, sessions).map(one));
    return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
  },
};
export type EngineNodeCommands = typeof commands;

/** Bytes that this process has given to the system to write: to files and sockets. */
function wroteBytes(): number {
  return Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

offer(commands);
