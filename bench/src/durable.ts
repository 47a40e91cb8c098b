import { setTimeout as sleep } from 'node:timers/promises';
import { redis as redisEngine } from '@parlance/server/redis';
import { type RedisServer, startRedis } from '../../packages/server/src/engine/testing/redis-server.js';
import { type Child, startChild } from '../../scripts/child-process.js';
import type { LoadCommands } from './durable/load.js';
import type { NodeCommands, NodeSetup } from './durable/server.js';
import { Written } from './durable/written.js';
import { type BenchOptions, compare, type Row } from './row.js';
import { median, quantile } from './statistics.js';

/**
 * The costs of recording sessions, against plain sessions of the same cluster: the delay of a part, and processor time;
 * the time from the death of a node to the next part, against that of a cut connection; the bytes that are written, and
 * those that are kept. Redis (AOF, everysec), each node and the load are processes of their own.
 */

const MAX_DELAY_MS = 1;
const MAX_CPU_US = 40;
const MAX_GAP_MS = { p50: 100, p99: 500 };
const MAX_CLAIMS_MS = 500;
const MAX_CHAT_BYTES = 200_000;
const MAX_IDLE_BYTES = 1_024;

const PACE_MS = 33;
const SESSIONS = 100;
const CLIENTS = 30;
const CLAIMS = 1_000;
/** Fields of a record that is claimed, and claims at a time. */
const FIELDS = 58;
const AT_ONCE = 64;
const CHAT = { turns: 40, words: 150, word: 'something ' };

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  await using redis = await startRedis('--appendonly', 'yes', '--appendfsync', 'everysec');
  yield* parts(redis, quick ? 2 : 7, quick ? 1_000 : 4_000);
  yield* deaths(redis, quick ? 2 : 10);
  yield* claims(redis, quick ? 2 : 7);
  yield* sizes(redis);
}

class Cluster implements AsyncDisposable {
  readonly nodes: Child<NodeCommands>[] = [];
  readonly load = startChild<LoadCommands>(new URL('./durable/load.ts', import.meta.url), []);
  readonly #setup: NodeSetup;

  constructor(redis: string, isDurable: boolean) {
    this.#setup = { redis, isDurable };
  }

  static async start(redis: string, isDurable: boolean, count: number): Promise<Cluster> {
    const cluster = new Cluster(redis, isDurable);
    for (let i = 0; i < count; i++) await cluster.add();
    return cluster;
  }

  async add(): Promise<void> {
    const node = startChild<NodeCommands>(new URL('./durable/server.ts', import.meta.url), [
      JSON.stringify(this.#setup),
    ]);
    while (!(await node.call('isMember'))) await sleep(20);
    this.nodes.push(node);
    await this.#route();
  }

  async kill(node: Child<NodeCommands>): Promise<void> {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    await this.#route();
    await node.kill();
  }

  async #route(): Promise<void> {
    await this.load.call('route', await Promise.all(this.nodes.map((node) => node.call('port'))));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.load, ...this.nodes].map((child) => child.kill()));
  }
}

interface Window {
  readonly delayMs: number;
  readonly cpuUs: number;
}

async function* parts({ url }: RedisServer, rounds: number, windowMs: number): AsyncGenerator<Row> {
  await using plain = await Cluster.start(url, false, 1);
  await using durable = await Cluster.start(url, true, 1);
  const windows = new Map<Cluster, Window[]>([
    [plain, []],
    [durable, []],
  ]);
  for (const { load } of [plain, durable]) await load.call('open', SESSIONS);
  // The first round is for the JIT compiler.
  for (let round = -1; round < rounds; round++) {
    for (const each of round % 2 === 0 ? [plain, durable] : [durable, plain]) {
      const window = await measureParts(each, windowMs);
      if (round >= 0) windows.get(each)?.push(window);
    }
  }
  const figure = (each: Cluster, key: keyof Window) =>
    median((windows.get(each) ?? []).map((one) => one[key]));
  for (const [name, unit, key, most] of [
    ['p50', 'ms', 'delayMs', MAX_DELAY_MS],
    ['CPU', 'us/part', 'cpuUs', MAX_CPU_US],
  ] as const) {
    const [base, value] = [figure(plain, key), figure(durable, key)];
    const target = () => ({ text: `<= +${most} ${unit}`, met: value - base <= most });
    const what = `part of ${SESSIONS} replies at 30/s, ${name}`;
    yield compare(what, unit, 'lower', value, { name: 'plain', value: base }, target);
  }
}

async function measureParts({ load, nodes: [node] }: Cluster, windowMs: number): Promise<Window> {
  if (node === undefined) throw new Error('there is a node');
  await load.call('start', PACE_MS);
  await sleep(300);
  await load.call('delays');
  const before = await node.call('mark');
  await sleep(windowMs);
  const after = await node.call('mark');
  const delays = await load.call('delays');
  await load.call('stop');
  const cpuUs = (after.cpuUs - before.cpuUs) / (after.parts - before.parts);
  return { delayMs: median(delays), cpuUs };
}

async function* deaths({ url }: RedisServer, rounds: number): AsyncGenerator<Row> {
  await using cluster = await Cluster.start(url, true, 3);
  const { load } = cluster;
  await load.call('open', CLIENTS);
  await load.call('start', 10);
  const [killed, cut]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    await sleep(500);
    cut.push(...(await load.call('gaps', { since: await load.call('cut') })));
    await sleep(500);
    const [node] = cluster.nodes;
    if (node === undefined) throw new Error('there are nodes');
    const of = await node.call('sessions');
    const since = await load.call('now');
    await cluster.kill(node);
    killed.push(...(await load.call('gaps', { since, of })));
    await cluster.add();
  }
  await load.call('stop');
  for (const [name, share] of [
    ['p50', 0.5],
    ['p99', 0.99],
  ] as const) {
    const most = MAX_GAP_MS[name];
    const target = { text: `<= ${most} ms`, met: quantile(killed, share) <= most };
    const baseline = { name: 'connection cut', value: quantile(cut, share) };
    const what = `kill -9 to the next part, ${CLIENTS} clients, ${name}`;
    yield compare(what, 'ms', 'lower', quantile(killed, share), baseline, () => target);
  }
}

/** Records of a node that has died, claimed by another one over one connection, against reading them. */
async function* claims({ url }: RedisServer, rounds: number): AsyncGenerator<Row> {
  const link = redisEngine({ url }).connect();
  const ids = Array.from({ length: CLAIMS }, (_, i) => `sess_bench${i}`);
  const names = Array.from({ length: FIELDS }, (_, i) => `p1.${i}`);
  const set = new Map(names.map((name) => [name, Buffer.from('about twenty bytes  ')]));
  const inBatches = async (call: (id: string) => Promise<unknown>) => {
    const start = performance.now();
    for (let i = 0; i < ids.length; i += AT_ONCE) await Promise.all(ids.slice(i, i + AT_ONCE).map(call));
    return performance.now() - start;
  };
  const ttlMs = 60_000;
  const head = { owner: 'died00', epoch: 0, number: 1, isFirst: true, ttlMs, remove: [], set };
  await inBatches((id) => link.writeSession(id, head));
  const [claimed, read]: [number[], number[]] = [[], []];
  for (let epoch = 0; epoch < rounds; epoch++) {
    read.push(await inBatches((id) => link.readSession(id, names)));
    const [from, to] = [epoch === 0 ? 'died00' : `node${epoch}`, `node${epoch + 1}`];
    claimed.push(await inBatches((id) => link.claimSession(id, { from, epoch, to, ttlMs })));
  }
  await Promise.all(ids.map((id) => link.releaseSession(id, `node${rounds}`, rounds).catch(() => {})));
  await link.close();
  const value = median(claimed);
  const target = { text: `<= ${MAX_CLAIMS_MS} ms`, met: value <= MAX_CLAIMS_MS };
  const what = `claim of ${CLAIMS} sessions with ${FIELDS} fields`;
  yield compare(what, 'ms', 'lower', value, { name: 'read', value: median(read) }, () => target);
}

async function* sizes({ url, client }: RedisServer): AsyncGenerator<Row> {
  await using cluster = await Cluster.start(url, true, 1);
  const { load } = cluster;
  await load.call('open', 1);
  const [id] = await load.call('ids');
  const key = `parlance:{${id}}`;
  const idle = Number(await client.memory('USAGE', key));
  const written = await Written.watch(client, key);
  const text = await load.call('chat', CHAT);
  const bytes = await written.end();
  const target = { text: `<= ${MAX_CHAT_BYTES / 1_000} kB`, met: bytes <= MAX_CHAT_BYTES };
  const chat = `chat of ${CHAT.turns} turns`;
  yield compare(
    `${chat}: fields written`,
    'B',
    'lower',
    bytes,
    { name: 'its answers', value: text },
    () => target,
  );
  await client.hset('moved', 'n', 'abcdef', 'e', '1');
  const moved = Number(await client.memory('USAGE', 'moved'));
  const held = { text: `<= ${MAX_IDLE_BYTES} B`, met: idle <= MAX_IDLE_BYTES };
  yield compare(
    'idle durable session in Redis',
    'B',
    'lower',
    idle,
    { name: 'plain, moved', value: moved },
    () => held,
  );
}
