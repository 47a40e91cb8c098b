import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Child, startChild } from '../../../scripts/child-process.js';
import { type BenchOptions, compare, type Row } from '../row.js';
import { median, quantile } from '../statistics.js';
import type { NodeSetup, RoomNodeCommands, System } from './cluster/server.js';
import type { MemberCommands } from './members.js';

/**
 * One message to a group whose members are at three nodes, beside a room of socket.io with `@socket.io/redis-streams-adapter`: when the
 * last member has it, processor time of all nodes, and what nodes and Redis write to each other. In turns; each node, Redis and the
 * members of each system are processes of their own.
 */

const SYSTEMS: readonly System[] = ['parlance', 'socket.io'];
const NODES = 3;
const SIZE = 100;
const COUNT = 3;

interface Contestant {
  readonly system: System;
  readonly nodes: readonly Child<RoomNodeCommands>[];
  readonly crowd: Child<MemberCommands>;
}

interface Window {
  readonly lastMs: number;
  readonly cpuUs: number;
  readonly bytes: number;
}

export async function* ofNodes({ quick }: BenchOptions): AsyncGenerator<Row> {
  const members = quick ? 999 : 9_999;
  const rounds = quick ? 3 : 10;
  await using redis = await startRedis();
  const gave = async () => Number(/total_net_output_bytes:(\d+)/.exec(await redis.client.info('stats'))?.[1]);
  const contestants: Contestant[] = [];
  try {
    for (const system of SYSTEMS) contestants.push(await begin(system, redis.url, members));
    const windows = new Map<System, Window[]>(SYSTEMS.map((system) => [system, []]));
    for (let round = -2; round < rounds; round++)
      for (const each of round % 2 === 0 ? contestants : contestants.toReversed()) {
        const window = await measure(each, members, gave);
        if (round >= 0) windows.get(each.system)?.push(window);
      }
    const of = (system: System, key: keyof Window) => (windows.get(system) ?? []).map((each) => each[key]);
    for (const [what, unit, key] of [
      [`the last has ${COUNT} after`, 'ms', 'lastMs'],
      ['CPU of the nodes', 'us/member', 'cpuUs'],
      ['between nodes and Redis', 'B', 'bytes'],
    ] as const) {
      const own = of('parlance', key);
      const baseline = { name: 'socket.io', value: median(of('socket.io', key)) };
      const name = `${SIZE} B to ${members} members of ${NODES} nodes, ${what}`;
      const quartiles = [quantile(own, 0.25), quantile(own, 0.75)] as const;
      yield { ...compare(name, unit, 'lower', median(own), baseline), quartiles };
    }
  } finally {
    for (const { nodes, crowd } of contestants) for (const child of [crowd, ...nodes]) await child.kill();
  }
}

async function begin(system: System, at: string, members: number): Promise<Contestant> {
  const crowd = startChild<MemberCommands>(new URL('./members.ts', import.meta.url), []);
  const setup: NodeSetup = { system, at };
  const nodes = Array.from({ length: NODES }, () =>
    startChild<RoomNodeCommands>(new URL('./cluster/server.ts', import.meta.url), [JSON.stringify(setup)]),
  );
  for (const node of nodes) {
    while (!(await node.call('isReady'))) await sleep(20);
    const url = `ws://127.0.0.1:${await node.call('port')}/`;
    await crowd.call('enter', { url, system, count: members / NODES });
    while ((await node.call('size')) < members / NODES) await sleep(50);
  }
  return { system, nodes, crowd };
}

async function measure(
  { nodes, crowd }: Contestant,
  members: number,
  gave: () => Promise<number>,
): Promise<Window> {
  const mark = async () => {
    const marks = await Promise.all(nodes.map((node) => node.call('mark')));
    const sum = (key: 'cpuUs' | 'wroteBytes') => marks.reduce((all, each) => all + each[key], 0);
    return { cpuUs: sum('cpuUs'), bytes: sum('wroteBytes') + (await gave()) };
  };
  const before = await mark();
  const arrived = crowd.call('arrived', members * COUNT);
  await nodes[0]?.call('broadcast', { size: SIZE, count: COUNT });
  const lastMs = await arrived;
  const after = await mark();
  return {
    lastMs,
    cpuUs: (after.cpuUs - before.cpuUs) / (members * COUNT),
    bytes: (after.bytes - before.bytes) / COUNT,
  };
}
