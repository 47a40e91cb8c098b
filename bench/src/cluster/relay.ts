import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { RelayLoadCommands } from '../relay/load.js';
import { compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import type { RelayNodeCommands } from './relay-node.js';

/** Messages from agent to agent whose sessions are at two nodes, against those of two agents of one node. */

const SIZES = [100, 16 * 1024] as const;
const DEPTH = 64;

export interface RelayPlan {
  readonly rounds: number;
  readonly windowMs: number;
  /** Messages that are sent one at a time. */
  readonly count: number;
}

interface Way {
  readonly name: string;
  readonly load: Child<RelayLoadCommands>;
  readonly nodes: readonly Child<RelayNodeCommands>[];
  readonly port: number;
  readonly receiverPort: number;
}

interface Measured {
  readonly rate: number;
  /** Of both nodes, in microseconds a message. */
  readonly cpu: number;
  readonly latency: number;
}

export async function* measureRelay({ url }: RedisServer, plan: RelayPlan): AsyncGenerator<Row> {
  const children: Child<RelayNodeCommands | RelayLoadCommands>[] = [];
  const node = () => {
    const child = startChild<RelayNodeCommands>(new URL('./relay-node.ts', import.meta.url), [url]);
    children.push(child);
    return child;
  };
  const [near, far] = [node(), node()];
  try {
    const [port, farPort] = await Promise.all([near.call('port'), far.call('port')]);
    while ((await near.call('others')) + (await far.call('others')) < 2) await sleep(50);
    const way = (name: string, receiverPort: number, ...nodes: Child<RelayNodeCommands>[]): Way => {
      const load = startChild<RelayLoadCommands>(new URL('../relay/load.ts', import.meta.url), ['session']);
      children.push(load);
      return { name, load, nodes, port, receiverPort };
    };
    const ways = [way('one node', port, near), way('across nodes', farPort, near, far)] as const;
    for (const size of SIZES) yield* measureSize(ways, size, plan);
  } finally {
    for (const child of children) child.stop();
  }
}

async function* measureSize(ways: readonly [Way, Way], size: number, plan: RelayPlan): AsyncGenerator<Row> {
  const measured = new Map<Way, Measured[]>(ways.map((each) => [each, []]));
  for (const { name, load, port, receiverPort } of ways) {
    const prefix = `${name} ${size}/`;
    await load.call('open', { port, receiverPort, prefix, size, pairs: 1 });
    await load.call('flood', { depth: DEPTH, windowMs: plan.windowMs });
  }
  for (let round = 0; round < plan.rounds; round++)
    for (const each of round % 2 === 0 ? ways : ways.toReversed())
      measured.get(each)?.push(await measure(each, plan));
  for (const { load, nodes } of ways) {
    await load.call('close');
    for (const node of nodes)
      if ((await node.call('mark')).recoded > 0) throw new Error('bodies were recoded');
  }
  const figure = (each: Way, key: keyof Measured) =>
    median((measured.get(each) ?? []).map((one) => one[key]));
  const [base, across] = ways;
  const row = (what: string, unit: string, better: Row['better'], key: keyof Measured) => {
    const held = { name: base.name, value: figure(base, key) };
    return compare(`relay across nodes, ${size} B, ${what}`, unit, better, figure(across, key), held);
  };
  yield row(`${DEPTH} under way`, 'msg/s', 'higher', 'rate');
  yield row(`${DEPTH} under way, all nodes`, 'us/msg', 'lower', 'cpu');
  yield row('one at a time, p50', 'ms', 'lower', 'latency');
}

async function measure({ load, nodes }: Way, { windowMs, count }: RelayPlan): Promise<Measured> {
  const cpu = async () => {
    const marks = await Promise.all(nodes.map(async (node) => await node.call('mark')));
    return marks.reduce((sum, { cpuUs }) => sum + cpuUs, 0);
  };
  const before = await cpu();
  const { messages, ms } = await load.call('flood', { depth: DEPTH, windowMs });
  const after = await cpu();
  const latency = await load.call('latency', { count });
  return { rate: (messages / ms) * 1000, cpu: (after - before) / messages, latency };
}
