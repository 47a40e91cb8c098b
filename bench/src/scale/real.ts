import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { cluster, createServer, metrics, type Server, without } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { WebSocket } from 'ws';
import { startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import type { Load } from '../../../packages/server/src/testing/scale/testing/scale-world.js';
import { UNLIMITED } from '../unlimited.js';

/** The load of a simulated cluster on nodes with sockets, real clients and a real Redis. */

const PRINCIPALS = 1_000;
const SETTLE_MS = 5_000;
const SECRET = 'a secret of the bench of scale';
const METADATA = { skills: ['summing', 'translating'] };

export interface Measured {
  /** In a second, as Redis counts them. */
  readonly engineBytes: number;
  readonly engineCalls: number;
  /** In a second, as nodes count them. */
  readonly messageBytes: number;
}

class RealNode {
  readonly server: Server;
  readonly #load: Load;
  readonly #clients: ClientSession[] = [];
  #url = '';
  #metricsUrl = '';

  constructor(load: Load, url: string) {
    this.#load = load;
    this.server = createServer({
      engine: redis({ url }),
      features: [cluster({ secret: SECRET }), metrics(), without('context')],
      algorithms: ['NONE'],
      encodings: [],
      limits: UNLIMITED,
      authenticate: ({ token = '' }) => {
        const [principal = '', agentId] = token.split('/');
        return { principal, agentId };
      },
      onSession: (session) => {
        const number = Number(session.agentId?.split('-')[1]);
        this.server.group(this.groupOf(number)).add(session);
      },
    });
  }

  groupOf(number: number): string {
    return `group-${number % Math.min(this.#load.groups, this.#load.nodes)}`;
  }

  async open(): Promise<void> {
    const { port } = await this.server.listen();
    this.#url = `ws://127.0.0.1:${port}/session`;
    const page = await this.server.listenMetrics({ port: 0 });
    this.#metricsUrl = `http://127.0.0.1:${page.port}/metrics`;
  }

  async join(number: number): Promise<void> {
    const token = `principal-${number % PRINCIPALS}/agent-${number}`;
    const agent = { metadata: METADATA };
    this.#clients.push(
      await connect(this.#url, { WebSocket: WebSocket as never, token, agent, reconnect: false }),
    );
  }

  async leave(): Promise<void> {
    await this.#clients.shift()?.close();
  }

  /** Bytes of messages that this node has sent to others. */
  async sentBytes(): Promise<number> {
    const text = await (await fetch(this.#metricsUrl)).text();
    return Number(/^parlance_node_bytes_total\{direction="sent"\} (\d+)/m.exec(text)?.[1]);
  }

  async known(): Promise<number> {
    const text = await (await fetch(this.#metricsUrl)).text();
    return Number(/^parlance_cluster_nodes (\d+)/m.exec(text)?.[1]);
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
    await this.server.close();
  }
}

export async function measureReal(load: Load, ms: number): Promise<Measured> {
  await using server = await startRedis();
  const all = Array.from({ length: load.nodes }, () => new RealNode(load, server.url));
  let agents = 0;
  let isOver = false;
  const lives: Promise<void>[] = [];
  const repeat = async (everyMs: number, task: () => unknown) => {
    for (let at = performance.now() + everyMs * Math.random(); !isOver; at += everyMs) {
      await sleep(Math.max(0, at - performance.now()));
      if (!isOver) await task();
    }
  };
  try {
    for (const node of all) await node.open();
    for (const node of all) for (let i = 0; i < load.agents; i++) await node.join(agents++);
    while ((await Promise.all(all.map((node) => node.known()))).some((known) => known < all.length))
      await sleep(100);
    for (const [i, node] of all.entries()) {
      let number = i;
      const content = 'a message to a group'.padEnd(load.size, '.');
      lives.push(
        repeat(1_000 / load.messages, () => node.server.group(node.groupOf(number++)).send(content)),
        repeat(load.stayMs / load.agents, async () => {
          await node.leave();
          await node.join(agents++);
        }),
      );
    }
    const figures = async () => {
      const stats = await server.client.info('stats');
      const commands = await server.client.info('commandstats');
      const bytes = ['input', 'output'].map((way) =>
        Number(new RegExp(`total_net_${way}_bytes:(\\d+)`).exec(stats)?.[1]),
      );
      const calls = ['evalsha', 'eval', 'xread'].map((name) =>
        Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(commands)?.[1] ?? 0),
      );
      const sent = await Promise.all(all.map((node) => node.sentBytes()));
      return [sumOf(bytes), sumOf(calls), sumOf(sent)] as const;
    };
    await sleep(SETTLE_MS);
    const [before, since] = [await figures(), performance.now()];
    await sleep(ms);
    const [after, seconds] = [await figures(), (performance.now() - since) / 1_000];
    const [engineBytes = 0, engineCalls = 0, messageBytes = 0] = after.map(
      (value, i) => (value - (before[i] as number)) / seconds,
    );
    return { engineBytes, engineCalls, messageBytes };
  } finally {
    isOver = true;
    await Promise.all(lives);
    await Promise.all(all.map((node) => node.close()));
  }
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
