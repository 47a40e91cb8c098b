import { setTimeout as pause } from 'node:timers/promises';
import { ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import type { Engine, EngineConnection, EngineTable, SessionReading } from '../engine.js';
import { type ReplyLogs, UNKNOWN } from '../logs/logs.js';
import { memoryCluster } from '../memory.js';
import type { EngineStore } from '../store.js';
import { type Behaviour, faultyMemory } from '../testing/faulty-memory.js';
import { engineTests, type StartedEngine } from './tests.js';

/** The suite finds engines that break a promise: each plant breaks one. */

/** Breaks an engine, given a whole one. */
interface Plant {
  readonly link?: (link: EngineConnection) => Partial<EngineConnection>;
  readonly table?: (table: EngineTable) => Partial<EngineTable>;
  readonly logs?: (logs: ReplyLogs) => Partial<ReplyLogs>;
  readonly store?: (store: EngineStore) => Partial<EngineStore>;
  readonly behaviour?: Partial<Behaviour>;
  /** In which groups of the suite it is found. */
  readonly found: RegExp;
}

const LONG = 1e6;
const lossy = (fields: ReadonlyMap<string, Uint8Array>) =>
  new Map([...fields].map(([name, bytes]) => [name, Buffer.from(Buffer.from(bytes).toString())]));

const PLANTS: Readonly<Record<string, Plant>> = {
  'a lease that never ends': {
    link: (link) => ({ renew: (node, record, ms) => link.renew(node, record, ms * LONG) }),
    found: /^leases/,
  },
  'a lease that is not renewed': {
    link: (link) => {
      const first = new Set<string>();
      return {
        async renew(node, record, ms) {
          const isKnown = first.has(node);
          first.add(node);
          return await link.renew(isKnown ? 'other' : node, record, ms);
        },
      };
    },
    found: /^leases/,
  },
  'nodes that are named once': {
    link: (link) => ({
      async renew(node, record, ms, known) {
        const list = await link.renew(node, record, ms, known);
        return known === undefined ? list : { ...list, nodes: undefined };
      },
    }),
    found: /^leases/,
  },
  'nodes whose records are named once': {
    link: (link) => {
      const records = new Map<string, string>();
      return {
        async renew(node, record, ms, known) {
          if (!records.has(node)) records.set(node, record);
          return await link.renew(node, records.get(node) as string, ms, known);
        },
      };
    },
    found: /^leases/,
  },
  'a node that cannot withdraw': { link: () => ({ async withdraw() {} }), found: /^leases/ },
  'an entry that anyone replaces': {
    table: (table) => ({ put: (key, entry) => table.put(key, entry) }),
    found: /^tables/,
  },
  'changes in another order': {
    table: (table) => ({ changes: async (after) => (await table.changes(after))?.toReversed() }),
    found: /^tables/,
  },
  'changes that are not told': { table: () => ({ changes: async () => [] }), found: /^tables/ },
  'a change that was never made and is not missed': {
    table: (table) => ({ changes: async (after) => (await table.changes(after)) ?? [] }),
    found: /^tables/,
  },
  'too many changes in one answer': {
    table: (table) => ({
      async changes(after) {
        const all = (await table.changes(after)) ?? [];
        return all.length < 500 ? all : [...all, ...((await table.changes(after + 500)) ?? [])];
      },
    }),
    found: /^tables/,
  },
  'an entry that is written again if it is there': {
    table: (table) => ({
      async put(key, entry, expected) {
        const { isDone } = await table.put(key, entry, expected);
        if (isDone) await table.put(key, undefined);
        return await table.put(key, entry, isDone ? undefined : expected);
      },
    }),
    found: /^tables|^repeatable/,
  },
  'a key for each node': { table: () => ({ shareKey: async (own) => own }), found: /^tables/ },
  'a session that two nodes get by a move': {
    link: (link) => ({
      async moveSession(id, move) {
        await link.moveSession(id, move);
        return { owner: move.to, epoch: move.epoch + 1 };
      },
    }),
    found: /^places/,
  },
  'sessions of another node that are kept': {
    link: (link) => ({
      async keepSessions(...args) {
        await link.keepSessions(...args);
        return [];
      },
    }),
    found: /^places/,
  },
  'a session that any node releases': {
    link: (link) => ({
      async releaseSession(id) {
        const { owner = '', epoch = 0 } = (await link.findSession(id)) ?? {};
        await link.releaseSession(id, owner, epoch);
      },
    }),
    found: /^(places|records)/,
  },
  'writes of a former epoch': {
    link: (link) => ({
      async writeSession(id, write) {
        const outcome = await link.writeSession(id, write);
        const now = await link.findSession(id);
        if (outcome !== 'fenced' || now === undefined || now.epoch <= write.epoch) return outcome;
        return await link.writeSession(id, { ...write, ...now, number: 1e6 + write.number, after: 0 });
      },
    }),
    found: /^records/,
  },
  'a record that is read in two steps': {
    link: (link) => ({
      async readSession(id, names) {
        const first = await link.readSession(id, names.slice(0, 1));
        await pause(2);
        const rest = await link.readSession(id, names.slice(1));
        const fields = new Map([...(first?.fields ?? []), ...(rest?.fields ?? [])]);
        return first && { ...first, fields };
      },
    }),
    found: /^records/,
  },
  'a write that is refused and half done': {
    link: (link) => ({
      async writeSession(id, write) {
        const outcome = await link.writeSession(id, write);
        if (typeof outcome === 'object')
          await link.writeSession(id, { ...write, set: new Map([...write.set].slice(0, 1)), maxBytes: 1e6 });
        return outcome;
      },
    }),
    found: /^records/,
  },
  'a write that is made again counts twice': {
    link: (link) => {
      let number = 0;
      return { writeSession: (id, write) => link.writeSession(id, { ...write, number: ++number }) };
    },
    found: /^(records|repeatable)/,
  },
  'an engine that is behind and does not say so': {
    link: (link) => ({ writeSession: (id, write) => link.writeSession(id, { ...write, after: 0 }) }),
    found: /^records/,
  },
  'a record that may have one byte more': {
    link: (link) => ({
      writeSession: (id, { maxBytes = Infinity, ...write }) =>
        link.writeSession(id, { ...write, maxBytes: maxBytes + 1 }),
    }),
    found: /^records/,
  },
  'bytes that are taken for text': {
    link: (link) => ({
      writeSession: (id, write) => link.writeSession(id, { ...write, set: lossy(write.set) }),
    }),
    found: /^records/,
  },
  'a write that no replica can confirm, and that is made': {
    link: () => ({
      async checkReplica() {
        throw new ProtocolError('unsupported', 'no replica');
      },
    }),
    found: /^records/,
  },
  'a session that two nodes claim': {
    link: (link) => ({
      async claimSession(id, move) {
        const { to, epoch } = move;
        const claimed = await link.claimSession(id, move);
        const fields = claimed ?? (await link.readSession(id, ['begin']));
        return fields && ({ ...fields, owner: to, epoch: epoch + 1 } satisfies SessionReading);
      },
    }),
    found: /^records/,
  },
  'an epoch that is forgotten with its session': {
    link: (link) => ({
      async releaseSession(id, owner, epoch) {
        const found = await link.findSession(id);
        if (found?.owner !== owner || found.epoch !== epoch) return;
        released.set(id, (released.get(id) ?? 0) + 1);
      },
      findSession: (id) => link.findSession(aliasOf(id)),
      readSession: (id, names) => link.readSession(aliasOf(id), names),
      writeSession: (id, write) => link.writeSession(aliasOf(id), write),
      claimSession: (id, move) => link.claimSession(aliasOf(id), move),
    }),
    found: /^records/,
  },
  'an account that has one byte more': {
    link: (link) => ({
      reserveCapacity: (account, id, capacity) =>
        link.reserveCapacity(account, id, { ...capacity, maxBytes: capacity.maxBytes + 1 }),
    }),
    found: /^accounts/,
  },
  'an account that is looked at before it is charged': {
    link: (link) => ({
      async reserveCapacity(account, id, capacity) {
        const bytes = await link.reserveCapacity(account, id, capacity);
        await link.releaseCapacity(account, id);
        await pause(2);
        return bytes === undefined
          ? undefined
          : await link.reserveCapacity(account, id, { ...capacity, maxBytes: 1e6 });
      },
    }),
    found: /^accounts/,
  },
  'bytes that are not given back': { link: () => ({ async releaseCapacity() {} }), found: /^accounts/ },
  'parts after the end': {
    logs: (logs) => ({
      async append(...args) {
        const outcome = await logs.append(...args);
        return outcome === 'ended' ? 'done' : outcome;
      },
    }),
    found: /^logs, writers/,
  },
  'parts of a writer of a former epoch': {
    logs: (logs) => ({
      async append(batch, bounds, ms) {
        const { epoch = 0 } = (await logs.find(batch.id)) ?? {};
        return await logs.append({ ...batch, epoch }, bounds, ms);
      },
    }),
    found: /^logs, writers/,
  },
  'a batch of which the last part is lost': {
    logs: (logs) => ({
      append: ({ records, ...batch }, bounds, ms) =>
        logs.append({ ...batch, records: records.length > 1 ? records.slice(0, -1) : records }, bounds, ms),
    }),
    found: /^logs/,
  },
  'a batch that is added in two steps': {
    logs: (logs) => ({
      async append({ records, ...batch }, bounds, ms) {
        if (records.length !== 5) return await logs.append({ ...batch, records }, bounds, ms);
        await logs.append({ ...batch, records: records.slice(0, 2) }, bounds, ms);
        await pause(2);
        return await logs.append({ ...batch, from: batch.from + 2, records: records.slice(2) }, bounds, ms);
      },
    }),
    found: /^logs, writers/,
  },
  'a reply that two nodes claim': {
    logs: (logs) => ({
      async claim(...args) {
        const claimed = await logs.claim(...args);
        return claimed.outcome === 'ended' ? { outcome: 'done', parts: 3, offset: 0 } : claimed;
      },
    }),
    found: /^logs, writers/,
  },
  'news that are not told': {
    logs: () => ({
      watch(_, onChanges) {
        queueMicrotask(() => onChanges(UNKNOWN));
        return () => {};
      },
    }),
    found: /^logs, (writers|readers)/,
  },
  'news in another order': {
    logs: (logs) => ({
      watch(id, onChanges) {
        let at = 0;
        return logs.watch(id, (news) => void setTimeout(onChanges, at++ === 1 ? 30 : 0, news));
      },
    }),
    found: /^logs, readers/,
  },
  'a writer that is not told that it was stopped': {
    logs: () => ({
      listen(_, onEnded) {
        queueMicrotask(() => onEnded(undefined));
        return () => {};
      },
    }),
    found: /^logs, writers/,
  },
  'an owner that has one byte more': {
    logs: (logs) => ({
      append: (batch, bounds, ms) =>
        logs.append(batch, { ...bounds, maxOwnerBytes: bounds.maxOwnerBytes + 1 }, ms),
    }),
    found: /^logs, bounds/,
  },
  'a reply that is never forgotten': {
    logs: (logs) => ({
      open: (head, bounds, ms) => logs.open({ ...head, ttlMs: LONG }, bounds, ms * LONG),
    }),
    found: /^logs, bounds/,
  },
  'a list that begins with the oldest': {
    logs: (logs) => ({
      async list(...args) {
        const page = await logs.list(...args);
        return { ...page, entries: page.entries.toReversed() };
      },
    }),
    found: /^logs, readers/,
  },
  'a proof that any token gives': {
    logs: (logs) => ({ prove: async (id) => await logs.prove(id, 'h1') }),
    found: /^logs, readers/,
  },
  'a call that is never answered in time': {
    link: () => ({ find: () => Promise.reject(new ProtocolError('timeout', 'no answer')) }),
    found: /^leases/,
  },
  'a store that knows no nodes': { store: () => ({ living: async () => [] }), found: /^store/ },
  'a store that never grows': { store: () => ({ size: async () => 0 }), found: /^store/ },
  'a store of which a session is missing': {
    store: (store) => ({
      async *exports() {
        let sessions = 0;
        for await (const item of store.exports())
          if (item.kind !== 'session' || ++sessions % 501 !== 0) yield item;
      },
    }),
    found: /^store/,
  },
  ...Object.fromEntries(
    (['capacity', 'key', 'entry', 'proof'] as const).map((kind): [string, Plant] => [
      `a store without each ${kind}`,
      {
        store: (store) => ({
          async *exports() {
            for await (const item of store.exports()) if (item.kind !== kind) yield item;
          },
        }),
        found: /^store/,
      },
    ]),
  ),
  'a store in which replies have no metadata': {
    store: (store) => ({
      async *exports() {
        for await (const item of store.exports())
          yield item.kind === 'reply' ? { ...item, metadata: [] } : item;
      },
    }),
    found: /^store/,
  },
  'a store in which all replies have their names': {
    store: (store) => ({
      async *exports() {
        for await (const item of store.exports())
          yield item.kind === 'reply' ? { ...item, isNamed: true } : item;
      },
    }),
    found: /^store/,
  },
  'a store that forgets the numbers of writes': {
    store: (store) => ({
      async *exports() {
        for await (const item of store.exports())
          yield item.kind === 'session' ? { ...item, number: 1 } : item;
      },
    }),
    found: /^store/,
  },
  'a call that waits for a silent engine for ever': { behaviour: { silentMs: 1e6 }, found: /^faults/ },
  'an export that gives up after a lost answer': { behaviour: { resumesExports: false }, found: /^faults/ },
  'a call that does not wait for a slow engine': { behaviour: { slowMs: 100 }, found: /^faults/ },
  'a write that is refused by a full engine and made': {
    behaviour: { writesWhenFull: true },
    found: /^faults/,
  },
  'data that do not outlive a restart': { behaviour: { keepsData: false }, found: /^faults/ },
  'lost data that are not missed': { behaviour: { tellsLoss: false }, found: /^faults/ },
};

const released = new Map<string, number>();
const aliasOf = (id: string) => `${id}${'+'.repeat(released.get(id) ?? 0)}`;

/** The same object but for some methods. */
const changed = <Whole extends object>(
  whole: Whole,
  change: ((whole: Whole) => Partial<Whole>) | undefined,
) => (change === undefined ? whole : Object.setPrototypeOf({ ...change(whole) }, whole));

function planted({ link, table, logs, store }: Plant, engine: Engine): Engine {
  return {
    connect() {
      const whole = engine.connect();
      const tables = { table: (name: string) => changed(whole.table(name), table) };
      return changed(changed(whole, link), () => tables);
    },
    connectLogs: () => changed(engine.connectLogs?.() as ReplyLogs, logs),
    connectStore: () => changed(engine.connectStore?.() as EngineStore, store),
  };
}

/** The same engine, of which every third call is executed and not answered in time. */
function lateNowAndThen(engine: Engine): Engine {
  let calls = 0;
  const late = <Whole extends object>(whole: Whole): Whole =>
    new Proxy(whole, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        return (...values: readonly unknown[]) => {
          const result: unknown = Reflect.apply(member, target, values);
          if (name === 'table') return late(result as object);
          if (!(result instanceof Promise) || name === 'close' || ++calls % 3 !== 0) return result;
          return result.then(() => Promise.reject(new ProtocolError('timeout', 'no answer')));
        };
      },
    });
  return {
    connect: () => late(engine.connect()),
    connectLogs: () => late(engine.connectLogs?.() as ReplyLogs),
    connectStore: () => late(engine.connectStore?.() as EngineStore),
  };
}

/**
 * Runs each test of the suite by itself.
 *
 * @param patienceMs how long a test waits before it fails.
 * @returns what is wrong, and which were skipped.
 */
async function runSuite(start: () => StartedEngine, groups: RegExp, patienceMs = 30_000) {
  const names: string[] = [];
  engineTests({ test: (name) => names.push(name), after() {}, start: async () => start() });
  const failures: string[] = [];
  const skipped: string[] = [];
  const run = async (name: string) => {
    const tests = new Map<string, (context: object) => Promise<void>>();
    engineTests({
      test: (each, body) => tests.set(each, body),
      after() {},
      start: async () => start(),
      patienceMs,
    });
    await tests
      .get(name)?.({ skip: () => skipped.push(name) })
      .catch((error: Error) => {
        failures.push(`${name}: ${error.message}`);
      });
  };
  await Promise.all(names.filter((name) => groups.test(name)).map(run));
  return { failures, skipped };
}

describe('the contract suite', () => {
  it('finds nothing wrong with an engine that keeps all promises, whatever happens to it', async () => {
    expect(await runSuite(() => faultyMemory(), /^/)).toEqual({ failures: [], skipped: [] });
  });

  it('blames no engine for calls that were not answered in time, if they are when they are made again', async () => {
    const start = (): StartedEngine => ({
      create: () => lateNowAndThen(memoryCluster()),
      async close() {},
    });
    expect((await runSuite(start, /^(?!faults)/)).failures).toEqual([]);
  });

  it('says which tests were skipped', async () => {
    const start = (): StartedEngine => ({
      create: () => ({ connect: memoryCluster().connect }),
      async close() {},
    });
    const { failures, skipped } = await runSuite(start, /^(logs|faults)/);
    expect(failures).toEqual([]);
    expect(skipped.some((name) => name.startsWith('logs'))).toBe(true);
    expect(skipped.some((name) => name.startsWith('faults'))).toBe(true);
  });

  it.concurrent.each(Object.entries(PLANTS))('finds %s', async (_, plant) => {
    const start = (): StartedEngine => {
      const whole = faultyMemory(plant.behaviour);
      return { ...whole, create: () => planted(plant, whole.create()) };
    };
    expect((await runSuite(start, plant.found, 500)).failures).not.toEqual([]);
  });
});
