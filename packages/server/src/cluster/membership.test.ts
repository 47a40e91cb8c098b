import { ProtocolError } from '@parlance/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../../../protocol/src/testing/manual-clock.js';
import type { Engine, EngineConnection } from '../engine/engine.js';
import { memoryCluster } from '../engine/memory.js';
import { type KnownNode, LEASE_MS, Membership, RENEW_MS } from './membership.js';

/** Nodes in virtual time, with an engine that a test stops. */

const EPOCH = 1_700_000_000_000;
let clock: ManualClock;
let engine: TestEngine;
let events: { readonly event: string; readonly [field: string]: unknown }[];
const members: Membership[] = [];

class TestEngine implements Engine {
  failure: Error | undefined;
  searches = 0;
  /** How long a renewal takes, in milliseconds. */
  delayMs = 0;
  /** So many of the next calls fail. */
  failures = 0;
  renewals = 0;
  /** Renewals that were answered with all nodes. */
  lists = 0;
  /** Whether the next renewal finds that it has forgotten all nodes. */
  isEmptied = false;
  /** How far its clock is ahead, in milliseconds. */
  aheadMs = 0;
  readonly #cluster = memoryCluster(() => EPOCH + clock.now());

  connect(): EngineConnection {
    const link = this.#cluster.connect();
    const check = () => {
      if (this.failure !== undefined) throw this.failure;
      if (this.failures-- > 0) throw GONE;
    };
    return {
      renew: async (incarnation, record, leaseMs, known) => {
        this.renewals++;
        check();
        const { delayMs } = this;
        if (delayMs > 0) await new Promise<void>((resolve) => void clock.after(delayMs, resolve));
        const list = await link.renew(incarnation, record, leaseMs, known);
        if (list.nodes !== undefined) this.lists++;
        const hasForgotten = this.isEmptied;
        this.isEmptied = false;
        const nodes = hasForgotten ? [] : list.nodes;
        return { ...list, nodes, now: list.now + this.aheadMs, hasForgotten };
      },
      find: async (incarnation) => {
        this.searches++;
        check();
        return await link.find(incarnation);
      },
      withdraw: async (incarnation) => {
        check();
        await link.withdraw(incarnation);
      },
      table: (name) => link.table(name),
      moveSession: async (_sessionId, { to, epoch }) => ({ owner: to, epoch: epoch + 1 }),
      findSession: async () => undefined,
      keepSessions: async () => [],
      writeSession: async () => 'written',
      readSession: async () => undefined,
      claimSession: async () => undefined,
      releaseSession: async () => {},
      reserveCapacity: async (_account, _sessionId, { bytes }) => bytes,
      releaseCapacity: async () => {},
      isVolatile: async () => false,
      close: async () => {},
    };
  }
}

beforeEach(() => {
  clock = new ManualClock();
  engine = new TestEngine();
  events = [];
});
afterEach(async () => {
  for (const each of members.splice(0)) await each.stop();
});

interface Choice {
  /** Of its timers; the default is that of the test. */
  readonly clock?: ManualClock;
  readonly refusalOf?: (node: KnownNode) => string | undefined;
  readonly onLeaseOver?: () => void;
}

/** The events of the node `aaaaaa` are recorded. */
function create(incarnation: string, choice: Choice = {}): Membership {
  const log = (fields: object) => {
    if (incarnation === 'aaaaaa') events.push(fields as (typeof events)[number]);
  };
  const membership = new Membership({
    engine,
    incarnation,
    clock: choice.clock ?? clock,
    now: () => EPOCH + clock.now(),
    logger: { debug: log, info: log, warn: log, error: log },
    refusalOf: choice.refusalOf ?? (() => undefined),
    onLeaseOver: choice.onLeaseOver ?? (() => {}),
  });
  members.push(membership);
  return membership;
}
const recordOf = (name: string) => ({ address: `ws://127.0.0.1/${name}`, proof: 'proof' });
async function join(incarnation: string, choice?: Choice): Promise<Membership> {
  const membership = create(incarnation, choice);
  await membership.start(recordOf(incarnation));
  return membership;
}
/** Lets time pass in steps, so that every renewal happens. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 500) {
    clock.pass(Math.min(500, left));
    for (let i = 0; i < 20; i++) await Promise.resolve();
  }
}
const named = (name: string) => events.filter(({ event }) => event === name);
const GONE = new ProtocolError('connection_failed', 'gone');

describe('a node', () => {
  it('knows the others with their next renewal at the latest, and stays known', async () => {
    const a = await join('aaaaaa');
    const b = await join('bbbbbb');
    expect(b.get('aaaaaa')).toMatchObject({ incarnation: 'aaaaaa', ...recordOf('aaaaaa') });
    expect(a.get('bbbbbb')).toBeUndefined();
    await pass(RENEW_MS);
    expect(a.get('bbbbbb')).toMatchObject(recordOf('bbbbbb'));
    await pass(60_000);
    expect([a.size, b.size]).toEqual([2, 2]);
    expect(named('node.joined')).toMatchObject([{ node: 'bbbbbb' }]);
    expect(named('node.left')).toEqual([]);
    expect(named('node.member')).toHaveLength(1);
  });

  it('reads all nodes only when one has come, gone or changed', async () => {
    const a = await join('aaaaaa');
    const b = await join('bbbbbb');
    const slow = new ManualClock();
    await join('cccccc', { clock: slow });
    await pass(RENEW_MS);
    engine.lists = 0;
    slow.pass(RENEW_MS);
    await pass(RENEW_MS);
    expect([engine.lists, a.size]).toEqual([0, 3]);
    await b.announceDraining();
    await pass(RENEW_MS);
    expect([engine.lists, a.get('bbbbbb')?.draining]).toEqual([2, true]);
    await pass(LEASE_MS + RENEW_MS);
    expect([engine.lists, a.size, b.size]).toEqual([4, 2, 2]);
    await pass(60_000);
    expect([engine.lists, a.size]).toEqual([4, 2]);
  });

  it('is found before that, with one question for all who ask', async () => {
    const a = await join('aaaaaa');
    await join('bbbbbb');
    const found = await Promise.all(Array.from({ length: 100 }, () => a.find('bbbbbb')));
    for (const each of found) expect(each).toMatchObject(recordOf('bbbbbb'));
    expect(engine.searches).toBe(1);
    expect(await a.find('cccccc')).toBeUndefined();
    expect(a.isAlive('bbbbbb')).toBe(true);
    expect(a.isAlive('cccccc')).toBe(false);
  });

  it('is not asked for while its lease lasts, as far as is known', async () => {
    const a = await join('aaaaaa');
    await join('bbbbbb', { clock: new ManualClock() });
    await pass(RENEW_MS);
    for (let i = 0; i < 100; i++) expect(await a.isGone('bbbbbb')).toBe(false);
    expect(engine.searches).toBe(0);
    await pass(LEASE_MS);
    expect(await a.isGone('bbbbbb')).toBe(true);
    expect(engine.searches).toBe(1);
    engine.failure = GONE;
    expect(await a.isGone('bbbbbb')).toBe(false);
  });

  it('is gone when its lease is over', async () => {
    const a = await join('aaaaaa');
    // Its timers stand still, as after a kill -9.
    await join('bbbbbb', { clock: new ManualClock() });
    await pass(LEASE_MS - 500);
    expect(a.isAlive('bbbbbb')).toBe(true);
    await pass(500 + RENEW_MS);
    expect(a.isAlive('bbbbbb')).toBe(false);
    expect(a.get('bbbbbb')).toBeUndefined();
    expect(a.size).toBe(1);
    expect(named('node.left')).toMatchObject([{ node: 'bbbbbb' }]);
  });

  describe('that drains', () => {
    const renewalsOf = async (node: Membership) => {
      engine.renewals = 0;
      await node.announceDraining();
      return engine.renewals;
    };

    it('asks the engine once if it knows a node that takes sessions', async () => {
      const a = await join('aaaaaa');
      const b = await join('bbbbbb');
      expect(await renewalsOf(b)).toBe(1);
      await pass(RENEW_MS);
      expect(a.get('bbbbbb')?.draining).toBe(true);
    });

    it('asks once more if the engine does not answer, and knows who has joined meanwhile', async () => {
      const a = await join('aaaaaa');
      await join('bbbbbb');
      engine.failures = 1;
      expect(await renewalsOf(a)).toBe(2);
      expect([a.isStalled, [...a.others].length]).toEqual([false, 1]);
      engine.failure = GONE;
      expect(await renewalsOf(a)).toBe(2);
    });

    it('asks once more if it knows none but those that drain as well', async () => {
      const a = await join('aaaaaa');
      expect(await renewalsOf(a)).toBe(2);
      const b = await join('bbbbbb');
      expect(await renewalsOf(b)).toBe(2);
    });
  });

  it('leaves at once if it is stopped', async () => {
    const a = await join('aaaaaa');
    const b = await join('bbbbbb');
    await b.stop();
    expect(await a.find('bbbbbb')).toBeUndefined();
  });

  it('proves its address once, and again if that has changed', async () => {
    const asked: string[] = [];
    const refusalOf = ({ address }: KnownNode) => {
      asked.push(address);
      return address === 'ws://elsewhere' ? 'is not signed' : undefined;
    };
    const a = await join('aaaaaa', { refusalOf });
    const b = engine.connect();
    await b.renew('bbbbbb', JSON.stringify(recordOf('bbbbbb')), 60_000);
    await pass(RENEW_MS);
    await b.renew('bbbbbb', JSON.stringify({ ...recordOf('bbbbbb'), draining: true }), 60_000);
    await pass(RENEW_MS);
    expect([asked, a.get('bbbbbb')?.draining]).toEqual([[recordOf('bbbbbb').address], true]);
    await b.renew('bbbbbb', JSON.stringify({ ...recordOf('bbbbbb'), address: 'ws://elsewhere' }), 60_000);
    await pass(RENEW_MS);
    expect([asked.length, a.get('bbbbbb')]).toEqual([2, undefined]);
  });

  it('whose record is refused is no member, which is logged once', async () => {
    const refusalOf = ({ incarnation }: KnownNode) =>
      incarnation === 'bbbbbb' ? 'is not signed' : undefined;
    const a = await join('aaaaaa', { refusalOf });
    await join('bbbbbb');
    const stranger = engine.connect();
    await stranger.renew('cccccc', 'not JSON', 60_000);
    await stranger.renew('dddddd', JSON.stringify({ address: 1, proof: 2 }), 60_000);
    await stranger.renew('eeeeee', JSON.stringify({ ...recordOf('e'), more: 'x'.repeat(5_000) }), 60_000);
    await pass(10 * RENEW_MS);
    expect(a.size).toBe(1);
    expect(await a.find('bbbbbb')).toBeUndefined();
    expect(
      named('node.refused')
        .map(({ node }) => node)
        .sort(),
    ).toEqual(['bbbbbb', 'cccccc', 'dddddd', 'eeeeee']);
  });

  it('knows 1,000 others and not one more', async () => {
    const a = await join('aaaaaa');
    const other = engine.connect();
    for (let i = 0; i < 999; i++) await other.renew(`n${i}`, JSON.stringify(recordOf('n')), 600_000);
    await pass(RENEW_MS);
    expect(a.size).toBe(1_000);
    await other.renew('one more', JSON.stringify(recordOf('n')), 600_000);
    await pass(RENEW_MS);
    expect(a.size).toBe(1_001);
    await other.renew('two more', JSON.stringify(recordOf('n')), 600_000);
    await pass(RENEW_MS);
    expect(a.size).toBe(1_001);
  });

  it.each([
    [10_000, 0],
    [10_001, 1],
    [-10_001, 1],
  ])('whose clock is off by %d ms logs it %d times', async (aheadMs, times) => {
    engine.aheadMs = aheadMs;
    await join('aaaaaa');
    await pass(10 * RENEW_MS);
    expect(named('clock.skewed')).toHaveLength(times);
  });
});

describe('while the engine does not answer', () => {
  it('the nodes that were known stay known, and it is logged once', async () => {
    const a = await join('aaaaaa');
    await join('bbbbbb');
    await pass(RENEW_MS);
    engine.failure = GONE;
    await pass(600_000);
    expect(a.get('bbbbbb')).toBeDefined();
    expect(a.isAlive('bbbbbb')).toBe(true);
    expect(a.isMember).toBe(true);
    expect(named('engine.stalled')).toHaveLength(1);
    const { searches } = engine;
    // At once, so that no client waits for it.
    await expect(a.find('cccccc')).rejects.toMatchObject({ code: 'connection_failed' });
    expect(engine.searches).toBe(searches);

    engine.failure = undefined;
    await pass(10 * RENEW_MS);
    expect(named('engine.back')).toHaveLength(1);
    expect(named('node.left')).toEqual([]);
    expect(a.size).toBe(2);
  });

  it('that has forgotten all nodes makes no node forget the others, or believe that one is gone', async () => {
    const a = await join('aaaaaa');
    await join('bbbbbb');
    await pass(RENEW_MS);
    // Almost the whole lease of the other node has passed.
    engine.failure = GONE;
    await pass(LEASE_MS - 500);
    engine.failure = undefined;
    engine.isEmptied = true;
    await pass(RENEW_MS);
    expect(named('node.forgotten')).toHaveLength(1);
    expect(a.isAlive('bbbbbb')).toBe(true);
    // A node of which this one has never heard may have been forgotten as well.
    await expect(a.find('cccccc')).rejects.toMatchObject({ code: 'connection_failed' });
    await pass(LEASE_MS);
    expect(await a.find('cccccc')).toBeUndefined();
    expect(named('node.left')).toEqual([]);
  });

  it('no node is forgotten before there was time to come back', async () => {
    const a = await join('aaaaaa');
    const slow = new ManualClock();
    const b = await join('bbbbbb', { clock: slow });
    await pass(RENEW_MS);
    engine.failure = GONE;
    await pass(600_000);
    engine.failure = undefined;
    // The first one sweeps the table; the other one has not renewed its lease yet.
    await pass(RENEW_MS);
    expect(a.isAlive('bbbbbb')).toBe(true);
    slow.pass(RENEW_MS);
    await pass(2 * RENEW_MS);
    expect(a.get('bbbbbb')).toBeDefined();
    expect(b.isMember).toBe(true);
    // Its timers stand still from now on.
    await pass(LEASE_MS + RENEW_MS);
    expect(a.get('bbbbbb')).toBeUndefined();
  });

  it('a node that starts is no member until it does', async () => {
    engine.failure = GONE;
    const a = await join('aaaaaa');
    expect(a.isMember).toBe(false);
    expect(a.size).toBe(0);
    await pass(10 * RENEW_MS);
    expect(a.isMember).toBe(false);
    engine.failure = undefined;
    await pass(RENEW_MS);
    expect(a.isMember).toBe(true);
    expect(events.map(({ event }) => event)).toEqual(['engine.stalled', 'engine.back', 'node.member']);
  });

  it('because it is unsuitable, a node does not start, and one that runs continues', async () => {
    engine.failure = new ProtocolError('unsupported', 'too old');
    await expect(create('bbbbbb').start(recordOf('bbbbbb'))).rejects.toMatchObject({ code: 'unsupported' });
    engine.failure = undefined;
    const a = await join('aaaaaa');
    engine.failure = new ProtocolError('unsupported', 'too old');
    await pass(10 * RENEW_MS);
    expect(a.isMember).toBe(true);
    expect(named('engine.stalled')).toHaveLength(1);
  });

  it('a node stops all the same', async () => {
    const a = await join('aaaaaa');
    engine.failure = GONE;
    await a.stop();
  });
});

describe('a node that does not reach the engine', () => {
  /** A node that was just a member, and when it was told that its lease is over. */
  async function alone() {
    const told: number[] = [];
    const node = await join('aaaaaa', { onLeaseOver: () => told.push(clock.now()) });
    return { node, told, since: clock.now() };
  }

  it('has a lease for as long as since its last renewal, and is told when it is over and while it is', async () => {
    const { node, told, since } = await alone();
    engine.failure = GONE;
    await pass(LEASE_MS - 1);
    expect([node.hasLease, told]).toEqual([true, []]);
    await pass(1);
    expect([node.hasLease, told]).toEqual([false, [since + LEASE_MS]]);
    await pass(2 * RENEW_MS);
    expect(told.length).toBeGreaterThan(2);

    engine.failure = undefined;
    await pass(RENEW_MS);
    const { length } = told;
    expect(node.hasLease).toBe(true);
    await pass(10 * LEASE_MS);
    expect(told).toHaveLength(length);
  });

  it('counts from the start of a renewal, as the engine may have executed it at once', async () => {
    const { node } = await alone();
    engine.delayMs = 400;
    await pass(RENEW_MS);
    const since = clock.now();
    await pass(1_000);
    expect(node.leaseUntil).toBe(since + LEASE_MS);
  });

  it('is told nothing if its process stood still and the engine answers', async () => {
    const { node, told } = await alone();
    clock.pass(3 * LEASE_MS);
    expect(node.hasLease).toBe(false);
    await pass(RENEW_MS);
    expect([node.hasLease, told]).toEqual([true, []]);
  });

  it('is told nothing once it has stopped, or before it was a member', async () => {
    const { node, told } = await alone();
    engine.failure = GONE;
    await join('bbbbbb', { onLeaseOver: () => told.push(0) });
    await node.stop();
    await pass(10 * LEASE_MS);
    expect(told).toEqual([]);
  });
});
