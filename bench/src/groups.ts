import { startChild } from '../../scripts/child-process.js';
import { ofNodes } from './groups/cluster.js';
import type { MemberCommands } from './groups/members.js';
import type { RoomCommands, Way } from './groups/server.js';
import { type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';

/**
 * One message to a group of 1,000 sessions, beside the same over plain `ws` and beside `send` to each: CPU of the server
 * for each member, and when the last member has it. In turns; the members are in another process.
 */

const WAYS: readonly Way[] = ['group', 'each', 'ws'];

export async function* run(options: BenchOptions): AsyncGenerator<Row> {
  yield* ofOneNode(options);
  yield* ofNodes(options);
}

async function* ofOneNode({ quick }: BenchOptions): AsyncGenerator<Row> {
  const members = quick ? 200 : 1_000;
  const rounds = quick ? 6 : 30;
  const server = startChild<RoomCommands>(new URL('./groups/server.ts', import.meta.url), []);
  const crowd = startChild<MemberCommands>(new URL('./groups/members.ts', import.meta.url), []);
  try {
    const urls = await server.call('urls');
    await crowd.call('open', { url: urls.parlance, isPlain: false, count: members });
    await crowd.call('open', { url: urls.ws, isPlain: true, count: members });
    while ((await server.call('members')).some((count) => count < members));
    for (const [size, count] of [
      [100, 10],
      [4_096, 5],
    ] as const) {
      const cpu: Record<Way, number[]> = { group: [], each: [], ws: [] };
      const late: Record<Way, number[]> = { group: [], each: [], ws: [] };
      for (let round = -2; round < rounds; round++) {
        for (let turn = 0; turn < WAYS.length; turn++) {
          const way = WAYS[(turn + Math.abs(round)) % WAYS.length] as Way;
          const before = await server.call('cpu');
          const arrived = crowd.call('arrived', members * count);
          await server.call('broadcast', { way, size, count });
          const last = await arrived;
          const used = ((await server.call('cpu')) - before) / (members * count);
          if (round < 0) continue;
          cpu[way].push(used);
          late[way].push(last);
        }
      }
      const what = `${size} B to ${members} members`;
      for (const [baseline, name] of [
        ['ws', 'plain ws'],
        ['each', 'send to each'],
      ] as const) {
        const own = { name, value: median(cpu[baseline]) };
        yield compare(`${what}, server CPU`, 'us/member', 'lower', median(cpu.group), own);
      }
      const own = { name: 'plain ws', value: median(late.ws) };
      yield compare(`${what}, the last has ${count} after`, 'ms', 'lower', median(late.group), own);
    }
  } finally {
    server.stop();
    crowd.stop();
  }
}
