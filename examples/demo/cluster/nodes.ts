import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { NodeCommands, NodeSetup } from './node.js';

/** Nodes in processes of their own, Redis, and a balancer that knows nothing of sessions. */
export interface Nodes extends AsyncDisposable {
  /** Of the balancer. */
  readonly url: string;
  readonly pids: readonly number[];
  /** Kills the node that has a session, and returns its process ID. */
  killOwner(sessionId: string): Promise<number>;
  /** The process ID of the node that has a session. */
  ownerOf(sessionId: string): Promise<number | undefined>;
}

interface Node {
  readonly process: Child<NodeCommands>;
  readonly port: number;
}

/** @param tell gets a line for each step, as a slow machine takes a minute for all of them. */
export async function startNodes(count: number, tell: (line: string) => void): Promise<Nodes> {
  const started = performance.now();
  const tellAt = (text: string) =>
    tell(`${((performance.now() - started) / 1_000).toFixed(1).padStart(5)} s  ${text}`);
  tellAt('starting Redis');
  const redis = await startRedis('--appendonly', 'yes');
  const setup: NodeSetup = { redis: redis.url, secret: randomBytes(24).toString('base64') };
  tellAt(`Redis answers at ${redis.url}; starting ${count} nodes, each a process of its own`);
  const alive = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const node = await startNode(setup, () => tellAt(`node ${i + 1} listens, and joins the cluster`));
      tellAt(`node ${i + 1} is a member`);
      return node;
    }),
  );
  const balancer = createServer((near) => pass(near, alive));
  balancer.listen(0, '127.0.0.1');
  await once(balancer, 'listening');
  const find = async (sessionId: string) => {
    for (const node of alive) if (await node.process.call('has', sessionId)) return node;
    return undefined;
  };
  return {
    url: `ws://127.0.0.1:${(balancer.address() as AddressInfo).port}/session`,
    pids: alive.map(({ process: { pid } }) => pid),
    async killOwner(sessionId) {
      const owner = await find(sessionId);
      if (owner === undefined) throw new Error(`no node has ${sessionId}`);
      alive.splice(alive.indexOf(owner), 1);
      await owner.process.kill();
      return owner.process.pid;
    },
    ownerOf: async (sessionId) => (await find(sessionId))?.process.pid,
    async [Symbol.asyncDispose]() {
      balancer.close();
      await Promise.all(alive.map((node) => node.process.kill()));
      await redis[Symbol.asyncDispose]();
    },
  };
}

/** As `npm run demo` itself is run. */
const FROM_SOURCE = ['--import', 'tsx', '--conditions=@parlance/source'];

/** @param onListening it is yet to become a member of the cluster. */
async function startNode(setup: NodeSetup, onListening: () => void): Promise<Node> {
  const process = startChild<NodeCommands>(
    new URL('./node.ts', import.meta.url),
    [JSON.stringify(setup)],
    FROM_SOURCE,
  );
  const port = await process.call('port');
  onListening();
  while (!(await process.call('isMember'))) await sleep(20);
  return { process, port };
}

/** Each connection goes to any node that lives. */
function pass(near: Socket, alive: readonly Node[]): void {
  const { port = 0 } = alive[Math.floor(Math.random() * alive.length)] ?? {};
  const far = connect(port, '127.0.0.1');
  near.pipe(far);
  far.pipe(near);
  for (const [socket, other] of [
    [near, far],
    [far, near],
  ] as const) {
    socket.on('error', () => {});
    socket.on('close', () => other.destroy());
  }
}
