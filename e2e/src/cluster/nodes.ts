import { randomBytes } from 'node:crypto';
import { type RedisServer, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import type { Child } from '../../../scripts/child-process.js';
import { freePort } from '../kit/cli-process.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { startNode } from '../kit/programs.js';
import { createWatchingProxy, type WatchedChunk, type WatchingProxy } from '../kit/watching-proxy.js';
import type { NodeCommands, NodeSetup } from './node.js';

/** Nodes in processes of their own, Redis, and proxies before every leg. */

export interface Node {
  readonly process: Child<NodeCommands>;
  readonly port: number;
  /** In front of its port for other nodes. */
  readonly peers: CuttingProxy;
  /** Between it and Redis; `undefined` unless the nodes are watched. */
  readonly engine: WatchingProxy | undefined;
}

/** Sees all that a node says to others at their ports and to Redis, before they do, and what they answer. */
export type WatchNodes = (
  chunk: WatchedChunk & {
    readonly leg: 'peer' | 'engine';
    /** The node whose port it is, or which talks to Redis. */
    readonly index: number;
  },
) => ReturnType<Parameters<typeof createWatchingProxy>[1]>;

export interface Nodes extends AsyncDisposable {
  readonly redis: RedisServer;
  readonly nodes: readonly Node[];
  /** In front of all nodes: each connection goes to one of those that `choose` allows, at random. */
  readonly front: CuttingProxy;
  readonly url: string;
  /** Which nodes get new connections. */
  choose(...indices: readonly number[]): void;
  /** The node that a session ID names. */
  ownerOf(sessionId: string): Promise<number>;
  add(): Promise<Node>;
}

export interface NodesOptions {
  readonly watch?: WatchNodes;
}

export async function startNodes(count: number, { watch }: NodesOptions = {}): Promise<Nodes> {
  const redis = await startRedis();
  const secret = randomBytes(24).toString('base64');
  const nodes: Node[] = [];
  let added = 0;
  const watchers: AsyncDisposable[] = [];
  const watched = async (leg: 'peer' | 'engine', index: number, port: number) => {
    if (watch === undefined) return undefined;
    const proxy = await createWatchingProxy(port, (chunk) => watch({ ...chunk, leg, index }));
    watchers.push(proxy);
    return proxy;
  };
  const start = async (index: number): Promise<Node> => {
    let target = 0;
    // It listens before a port is looked for that the node may take, so that it does not take that one itself.
    const peers = await createCuttingProxy(() => target);
    const peerPort = Number(await freePort());
    target = (await watched('peer', index, peerPort))?.port ?? peerPort;
    const engine = await watched('engine', index, Number(new URL(redis.url).port));
    const setup: NodeSetup = {
      url: engine === undefined ? redis.url : `redis://127.0.0.1:${engine.port}`,
      peerPort,
      advertise: `ws://127.0.0.1:${peers.port}`,
      secret,
    };
    const started = await startNode('cluster/node', setup).catch(async (error: unknown) => {
      await peers[Symbol.asyncDispose]();
      throw error;
    });
    const node = { ...started, peers, engine };
    nodes[index] = node;
    return node;
  };
  /** A port that was free may be taken by the time a node listens there; then it tries another one. */
  const add = async (): Promise<Node> => {
    const index = added++;
    for (let triesLeft = 3; ; triesLeft--) {
      try {
        return await start(index);
      } catch (error) {
        if (triesLeft === 0) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: count }, add));
  let chosen: readonly number[] = nodes.map((_node, index) => index);
  const pick = () => {
    const alive = chosen.filter((index) => nodes[index]?.process.end === undefined);
    const index = alive[Math.floor(Math.random() * alive.length)] ?? 0;
    return (nodes[index] as Node).port;
  };
  const front = await createCuttingProxy(pick);
  return {
    redis,
    nodes,
    front,
    url: `ws://127.0.0.1:${front.port}/session`,
    choose(...indices) {
      chosen = indices;
    },
    async ownerOf(sessionId) {
      for (const [index, { process }] of nodes.entries()) {
        if (process.end !== undefined) continue;
        if (await process.call('owns', sessionId)) return index;
      }
      return -1;
    },
    add,
    async [Symbol.asyncDispose]() {
      await front[Symbol.asyncDispose]();
      for (const { process, peers } of nodes) {
        await process.kill();
        await peers[Symbol.asyncDispose]();
      }
      for (const proxy of watchers) await proxy[Symbol.asyncDispose]();
      await redis[Symbol.asyncDispose]();
    },
  };
}
