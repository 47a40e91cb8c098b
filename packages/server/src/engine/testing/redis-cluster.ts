import { setTimeout as pause } from 'node:timers/promises';
import { Cluster } from 'ioredis';
import { freePort } from './free-port.js';
import { type RedisServer, startRedis } from './redis-server.js';

/** A Redis Cluster of six processes: three masters, each with a replica. */
export interface RedisCluster extends AsyncDisposable {
  readonly servers: readonly RedisServer[];
  /** A client of the cluster; with `lazyConnect`, for its `duplicate`. */
  connect(): Cluster;
  /** The master that has the slot of a key. */
  masterOf(key: string): Promise<RedisServer>;
}

/** How long a node may be silent until it counts as failed, in milliseconds. */
const NODE_TIMEOUT_MS = 1_000;
const MASTERS = 3;
const SLOTS = 16_384;

const portOf = ({ url }: RedisServer) => Number(new URL(url).port);

/** @param options of each server. */
export async function startRedisCluster(...options: readonly string[]): Promise<RedisCluster> {
  const files = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'];
  const timing = ['--cluster-node-timeout', String(NODE_TIMEOUT_MS), '--repl-diskless-sync-delay', '0'];
  // Without, it is 10,000 above the port of the server, and any connection may have that.
  const buses = await Promise.all(Array.from({ length: 2 * MASTERS }, freePort));
  const servers = await Promise.all(
    buses.map((bus) => startRedis(...files, '--cluster-port', String(bus), ...timing, ...options)),
  );
  const ids = await Promise.all(servers.map(({ client }) => client.cluster('MYID')));
  const [first] = servers as [RedisServer];
  for (const [i, { client }] of servers.entries()) {
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', String(i + 1));
    if (i > 0) await client.call('CLUSTER', 'MEET', '127.0.0.1', String(portOf(first)), String(buses[0]));
  }
  for (let i = 0; i < MASTERS; i++) {
    const [from, to] = [i, i + 1].map((at) => Math.floor((at * SLOTS) / MASTERS)) as [number, number];
    await servers[i]?.client.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to - 1));
  }
  for (let i = MASTERS; i < servers.length; i++)
    await patiently(async () => {
      await servers[i]?.client.call('CLUSTER', 'REPLICATE', String(ids[i - MASTERS]));
    });
  await patiently(async () => {
    for (const { client } of servers) {
      const info = String(await client.call('CLUSTER', 'INFO'));
      if (!info.includes('cluster_state:ok')) throw new Error('the cluster is not complete');
    }
    for (const { client } of servers.slice(MASTERS))
      if (!(await client.info('replication')).includes('master_link_status:up'))
        throw new Error('no replica');
  });
  const nodes = servers.map((server) => ({ host: '127.0.0.1', port: portOf(server) }));
  return {
    servers,
    connect: () => new Cluster(nodes, { lazyConnect: true }),
    async masterOf(key) {
      const slot = Number(await first.client.cluster('KEYSLOT', key));
      const slots = (await first.client.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
      const port = slots.find(([from, to]) => from <= slot && slot <= to)?.[2][1];
      return servers.find((server) => portOf(server) === port) as RedisServer;
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) await server[Symbol.asyncDispose]();
    },
  };
}

async function patiently(attempt: () => Promise<void>): Promise<void> {
  for (const end = performance.now() + 10_000; ; await pause(25)) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
    }
  }
}
