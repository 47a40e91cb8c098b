import { resolveLimits } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { afterEach, describe, expect, it } from 'vitest';
import type { EngineTable } from '../../engine/engine.js';
import { memoryCluster } from '../../engine/memory.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import { Directory } from '../directory.js';
import type { RelayTarget } from '../target.js';
import { Roster } from './roster.js';

/** The parts of a session that a directory uses. */
class FakeSession {
  state = 'established';
  isRemote = false;
  retentionMs = 0;
  ended: string | undefined;
  readonly negotiated = { algorithms: ['NONE'], encoding: null, extensions: { agents: '{}' } };
  readonly listeners = { add: () => {} };
  readonly id: string;
  readonly principal = 'acme';
  readonly agentId: string;

  constructor(id: string, agentId: string) {
    this.id = id;
    this.agentId = agentId;
  }

  abort({ code }: { readonly code: string }) {
    this.ended = code;
  }
}

const rosters: Roster[] = [];
afterEach(async () => {
  for (const roster of rosters.splice(0)) await roster.stop();
});

const dead = new Set<string>();
afterEach(() => dead.clear());
let time = 0;
let sessions = 0;

async function join(
  cluster: ReturnType<typeof memoryCluster>,
  incarnation: string,
  onConflict: 'takeOver' | 'refuse',
) {
  const directory = new Directory({
    onConflict,
    policy: { isDecided: false, mayList: () => true },
    key: new Uint8Array(32),
    limits: resolveLimits(),
    clock: { soon: () => {} },
    logger: SILENT_LOGGER,
  });
  const link = cluster.connect();
  const roster = new Roster({
    link,
    incarnation,
    directory,
    onConflict,
    limits: resolveLimits(),
    logger: SILENT_LOGGER,
    now: () => time,
    isNodeAlive: (node) => !dead.has(node),
    others: () => [],
    peers: {
      targetOf: (_node, { sessionId, ...agent }) =>
        ({ id: sessionId, ...agent, isRemote: true }) as never as RelayTarget,
      handleAway: ({ session }) => session,
      reroute: () => {},
      forget: () => {},
    },
  });
  rosters.push(roster);
  await roster.start();
  return {
    directory,
    roster,
    link,
    holderOf: (agentId: string) => directory.find('acme', agentId)?.session.id,
    agent(agentId: string, retentionMs = 0) {
      const id = `sess_${incarnation}${String(sessions++).padStart(14, '0')}`;
      const session = Object.assign(new FakeSession(id, agentId), { retentionMs });
      const endpoint = session as never as ServerEndpoint;
      const admitted = directory.admit(endpoint, { agents: '{}' });
      const refused = admitted !== undefined && 'code' in admitted ? admitted : undefined;
      if (admitted !== undefined && 'accepted' in admitted) admitted.accepted(endpoint);
      if (refused === undefined) directory.join(endpoint);
      return { session, refused, leave: () => directory.leave(endpoint) };
    },
  };
}

describe('the agents of two nodes', () => {
  it('are known at both', async () => {
    const cluster = memoryCluster();
    const [a, b] = [await join(cluster, 'aaaaaa', 'takeOver'), await join(cluster, 'bbbbbb', 'takeOver')];
    const worker = a.agent('worker');
    await expect.poll(() => b.holderOf('worker')).toBe(worker.session.id);
    worker.leave();
    await expect.poll(() => b.holderOf('worker')).toBeUndefined();
  });

  it('stay known while an engine that was emptied hears of them again, and no longer than that', async () => {
    const cluster = memoryCluster();
    let isEmptied = false;
    const emptied = () => {
      const link = cluster.connect();
      const inner = link.table('agents');
      const table: EngineTable = {
        put: (...entry) => inner.put(...entry),
        read: async () => (isEmptied ? { entries: new Map(), position: 0 } : await inner.read()),
        async changes(after) {
          if (isEmptied) return after > 0 ? undefined : await new Promise<undefined>(() => {});
          return await Promise.race([
            inner.changes(after),
            new Promise<[]>((resolve) => setTimeout(resolve, 5, [])),
          ]);
        },
        shareKey: (candidate) => inner.shareKey(candidate),
      };
      return { ...link, table: () => table };
    };
    const a = await join(cluster, 'aaaaaa', 'takeOver');
    const b = await join({ ...cluster, connect: emptied } as typeof cluster, 'bbbbbb', 'takeOver');
    const worker = a.agent('worker');
    await expect.poll(() => b.holderOf('worker')).toBe(worker.session.id);
    isEmptied = true;
    await new Promise((resolve) => setTimeout(resolve, 30));
    b.roster.handleTick();
    expect(b.holderOf('worker')).toBe(worker.session.id);
    time += 5_999;
    b.roster.handleTick();
    expect(b.holderOf('worker')).toBe(worker.session.id);
    time += 1;
    b.roster.handleTick();
    expect(b.holderOf('worker')).toBeUndefined();
  });

  it('that claim one ID at the same moment end with one holder, the same at both nodes', async () => {
    for (const onConflict of ['takeOver', 'refuse'] as const) {
      const cluster = memoryCluster();
      const nodes = [await join(cluster, 'aaaaaa', onConflict), await join(cluster, 'bbbbbb', onConflict)];
      const both = nodes.map((node) => node.agent('worker'));
      const ended = () => both.filter(({ session }) => session.ended !== undefined);
      await expect.poll(() => ended().length).toBe(1);
      const code = onConflict === 'takeOver' ? 'taken_over' : 'forbidden';
      expect(ended()[0]?.session.ended).toBe(code);
      ended()[0]?.leave();
      const winner = both.find(({ session }) => session.ended === undefined)?.session.id;
      await expect.poll(() => nodes.map(({ holderOf }) => holderOf('worker'))).toEqual([winner, winner]);
    }
  });

  it('of a node that is dead are gone, and their IDs free', async () => {
    const cluster = memoryCluster();
    const [a, b] = [await join(cluster, 'aaaaaa', 'refuse'), await join(cluster, 'bbbbbb', 'refuse')];
    const worker = a.agent('worker');
    await expect.poll(() => b.holderOf('worker')).toBe(worker.session.id);
    expect(b.agent('worker').refused).toBeDefined();
    time += 60_000;
    b.roster.handleTick();
    expect(b.holderOf('worker')).toBe(worker.session.id);
    dead.add('aaaaaa');
    b.roster.handleTick();
    expect(b.holderOf('worker')).toBeUndefined();
    // The node was only thought to be dead, and announces its agents again.
    dead.clear();
    await expect.poll(() => b.holderOf('worker')).toBe(worker.session.id);
  });

  it('of a node that comes back after others took it for dead do not displace those that have their IDs by then', async () => {
    const cluster = memoryCluster();
    const [a, b] = [await join(cluster, 'aaaaaa', 'takeOver'), await join(cluster, 'bbbbbb', 'takeOver')];
    const former = a.agent('worker');
    const other = a.agent('other');
    await expect
      .poll(() => [b.holderOf('worker'), b.holderOf('other')])
      .toEqual([former, other].map(({ session }) => session.id));
    // Others have removed its entries, and the client of one agent has begun another session there, before it looks again.
    const table = cluster.connect().table('agents');
    const { entries } = await table.read();
    for (const [key, { holder }] of entries) await table.put(key, undefined, holder);
    const next = b.agent('worker');
    await expect.poll(() => former.session.ended).toBe('taken_over');
    await expect.poll(() => a.holderOf('worker')).toBe(next.session.id);
    await expect.poll(() => b.holderOf('other')).toBe(other.session.id);
    expect([next.session.ended, other.session.ended]).toEqual([undefined, undefined]);
  });

  it('of a node that comes back do not displace those of a node that it does not know yet', async () => {
    const cluster = memoryCluster();
    let looking = Promise.resolve();
    const paused = () => {
      const link = cluster.connect();
      const inner = link.table('agents');
      const table: EngineTable = {
        put: (...entry) => inner.put(...entry),
        read: () => inner.read(),
        async changes(after) {
          await inner.changes(after);
          await looking;
          return await inner.changes(after);
        },
        shareKey: (candidate) => inner.shareKey(candidate),
      };
      return { ...link, table: () => table };
    };
    const a = await join({ ...cluster, connect: paused } as typeof cluster, 'aaaaaa', 'takeOver');
    const b = await join(cluster, 'bbbbbb', 'takeOver');
    const former = a.agent('worker');
    await expect
      .poll(() => [a, b].map((node) => node.holderOf('worker')))
      .toEqual(Array(2).fill(former.session.id));
    let look = (): void => {};
    looking = new Promise((resolve) => {
      look = resolve;
    });
    dead.add('bbbbbb');
    const table = cluster.connect().table('agents');
    await table.put('acme:worker', undefined, former.session.id);
    const next = b.agent('worker');
    await expect
      .poll(async () => (await table.read()).entries.get('acme:worker')?.holder)
      .toBe(next.session.id);
    look();
    await expect.poll(() => former.session.ended).toBe('taken_over');
    expect(next.session.ended).toBeUndefined();
  });

  it('stay if they move while the engine has what a node before the last one has said', async () => {
    const cluster = memoryCluster();
    const [a, b] = [await join(cluster, 'aaaaaa', 'takeOver'), await join(cluster, 'bbbbbb', 'takeOver')];
    const { session } = a.agent('worker');
    await expect.poll(() => b.holderOf('worker')).toBe(session.id);
    const endpoint = new FakeSession(session.id, 'worker') as never as ServerEndpoint;
    const agent = b.directory.adopt(endpoint, { agents: '{}' });
    b.roster.adopt(agent, 'cccccc');
    const stated = async () => (await b.link.table('agents').read()).entries.get('acme:worker')?.holder;
    await expect.poll(stated).toBe(`bbbbbb/${session.id}`);
    expect((endpoint as never as FakeSession).ended).toBeUndefined();
  });

  it('stay for as long as they say when their node is gone, and say it for themselves', async () => {
    const cluster = memoryCluster();
    const [a, b] = [await join(cluster, 'aaaaaa', 'refuse'), await join(cluster, 'bbbbbb', 'refuse')];
    const [short, long] = [a.agent('short', 100), a.agent('long', 700)];
    await expect.poll(() => b.holderOf('short')).toBe(short.session.id);
    await expect.poll(() => b.holderOf('long')).toBe(long.session.id);
    const present = () => ['short', 'long'].filter((agentId) => b.holderOf(agentId) !== undefined);
    const seen: string[][] = [];
    dead.add('aaaaaa');
    time += 60_000;
    for (const passed of [0, 99, 1, 599, 1]) {
      time += passed;
      b.roster.handleTick();
      seen.push(present());
    }
    expect(seen).toEqual([['short', 'long'], ['short', 'long'], ['long'], ['long'], []]);
  });

  it('are set right if a write of their node comes late', async () => {
    const cluster = memoryCluster();
    const [a, b] = [await join(cluster, 'aaaaaa', 'refuse'), await join(cluster, 'bbbbbb', 'refuse')];
    const former = a.agent('worker');
    await expect.poll(() => b.holderOf('worker')).toBe(former.session.id);
    const written = (await b.link.table('agents').read()).entries.get('acme:worker');
    if (written === undefined) throw new Error('it is written');
    const late = (record = written.record) =>
      b.link.table('agents').put('acme:worker', { ...written, record });
    const now = async () => (await b.link.table('agents').read()).entries.get('acme:worker');
    // A record from before.
    await late(written.record.replace('"suspended":false', '"suspended":true'));
    await expect.poll(now).toEqual(written);
    former.leave();
    await expect.poll(now).toBeUndefined();
    await late();
    await expect.poll(now).toBeUndefined();
    const next = a.agent('worker');
    await expect.poll(() => b.holderOf('worker')).toBe(next.session.id);
    await late();
    await expect.poll(now).toMatchObject({ holder: next.session.id });
    await expect.poll(() => b.holderOf('worker')).toBe(next.session.id);
    expect(next.session.ended).toBeUndefined();
  });

  it('are left out if their records are malformed', async () => {
    const cluster = memoryCluster();
    const b = await join(cluster, 'bbbbbb', 'takeOver');
    const holder = 'sess_aaaaaa00000000000000';
    const good = { principal: 'acme', id: 'z', algorithms: [], encoding: null };
    const records = [
      '',
      '{',
      '[]',
      '{}',
      JSON.stringify({ ...good, id: 'y' }),
      JSON.stringify({ ...good, agents: '[]' }),
    ];
    for (const record of records) await b.link.table('agents').put('acme:z', { holder, record });
    await b.link
      .table('agents')
      .put('acme:last', { holder, record: JSON.stringify({ ...good, id: 'last' }) });
    await expect.poll(() => b.holderOf('last')).toBe(holder);
    expect(b.holderOf('z')).toBeUndefined();
  });
});
