import { setTimeout as sleep } from 'node:timers/promises';
import { cluster, createServer, durable } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';

/** One node in a process of its own. Each part of its replies says when it was yielded. */

export interface NodeSetup {
  /** Of Redis. */
  readonly redis: string;
  readonly isDurable: boolean;
}

/** A request of the load. */
export interface Wish {
  readonly parts: number;
  readonly paceMs: number;
  /** Each part. @default the time at which it is yielded */
  readonly text?: string;
}

const { redis: url, isDurable } = JSON.parse(process.argv[2] as string) as NodeSetup;
let parts = 0;
let isMember = false;

const server = createServer({
  engine: redis({ url }),
  features: [
    cluster({ secret: 'a secret for the bench' }),
    durable(isDurable, { allowVolatileEngine: true }),
  ],
  limits: { messagesPerMinute: Infinity, sessionsPerIp: Infinity, sessionsPerMinutePerIp: Infinity },
  logger: { debug() {}, info: note, warn() {}, error: console.error },
  async *onRequest(request, { yielded, ifProcessDies, signal }) {
    ifProcessDies('again');
    const wish = request.json<Wish>();
    for (let part = yielded.length; part < wish.parts && !signal.aborted; part++) {
      parts++;
      yield wish.text ?? String(performance.timeOrigin + performance.now());
      if (wish.paceMs > 0) await sleep(wish.paceMs);
    }
  },
});

function note({ event }: Readonly<Record<string, unknown>>): void {
  if (event === 'node.member') isMember = true;
}

const { port } = await server.listen({ port: 0 });

const commands = {
  port: () => port,
  isMember: () => isMember,
  sessions: () => [...server.sessions.keys()],
  mark: () => ({ cpuUs: cpuTime(), parts }),
};
export type NodeCommands = typeof commands;

offer(commands);
