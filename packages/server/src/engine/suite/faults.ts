import { setTimeout as pause } from 'node:timers/promises';
import { ENGINE_TIMEOUT_MS, type EngineConnection } from '../engine.js';
import type { ReplyLogs } from '../logs/logs.js';
import { codeOf, like, meanwhile, ok, refused, same } from './asserts.js';
import { BOUNDS, batchOf, headOf, LIVE_MS, readAll, recordOf } from './log-values.js';
import { ID, moveTo, TTL_MS, textsOf, writeOf } from './record-values.js';
import type { Tests, World } from './world.js';

/** A call that is bounded in time is over after so long, with a margin for a busy machine, in milliseconds. */
const OVER_MS = 4 * ENGINE_TIMEOUT_MS;
const CAPACITY = { bytes: 10, maxBytes: 100, ttlMs: TTL_MS };

/** One call of each interface. */
const callsOf = (link: EngineConnection): Promise<unknown>[] => [
  link.renew('aaaaaa', '', TTL_MS),
  link.find('bbbbbb'),
  link.findSession(ID),
  link.moveSession('sess_moved', moveTo('bbbbbb')),
  link.keepSessions('aaaaaa', new Map([['sess_kept', 1]]), TTL_MS),
  link.writeSession(ID, writeOf(1, { begin: 'b' })),
  link.readSession(ID, ['begin']),
  link.reserveCapacity('ada', 'one', CAPACITY),
  link.table('names').put('k', { holder: 's', record: '' }),
  link.table('names').read(),
];

/** How each call has ended; one that has not is `pending`. */
async function endsOf(calls: readonly Promise<unknown>[], withinMs: number): Promise<readonly string[]> {
  const late = new Promise<string>((resolve) => void setTimeout(resolve, withinMs, 'pending').unref());
  return await Promise.all(calls.map((call) => Promise.race([codeOf(call), late])));
}

const answering = ({ eventually }: World, link: EngineConnection) =>
  eventually(
    () => codeOf(link.renew('aaaaaa', '', TTL_MS)),
    (code) => same(code, 'answered'),
  );

const atOnce = (codes: readonly string[]) =>
  ok(
    codes.every((code) => code === 'timeout' || code === 'connection_failed'),
    `calls to a silent engine ended with ${codes.join(', ')}`,
  );

/** Writes one commit after the other, each again until it is answered, until it is told to stop. @returns commits. */
async function commits(link: EngineConnection, id: string, isOver: () => boolean): Promise<number> {
  for (let number = 1; ; number++) {
    const write = { ...writeOf(number, { [`m${number}`]: `${number}` }), after: number - 1 };
    for (;;) {
      const outcome = await link.writeSession(id, write).catch(({ code }: { code: unknown }) => code);
      if (outcome === 'written') break;
      ok(outcome === 'timeout' || outcome === 'connection_failed', `commit ${number} is ${outcome}`);
      await pause(20);
    }
    if (isOver()) return number;
    await pause(10);
  }
}

/** Adds parts as {@link commits} does. */
async function parts(logs: ReplyLogs, head: ReturnType<typeof headOf>, isOver: () => boolean) {
  const records: Uint8Array[] = [];
  while (!isOver()) {
    const more = [recordOf(String(records.length))];
    for (;;) {
      const outcome = await logs
        .append(batchOf(head, records, more), BOUNDS, LIVE_MS)
        .catch(({ code }: { code: unknown }) => code);
      if (outcome === 'done') break;
      ok(outcome === 'timeout' || outcome === 'connection_failed', `part ${records.length} is ${outcome}`);
      await pause(20);
    }
    records.push(...more);
    await pause(5);
  }
  return records;
}

export const faultTests: Tests = {
  async 'calls to a silent engine are over in time, and are answered after it'(world) {
    const link = world.connect();
    await link.renew('aaaaaa', '', TTL_MS);
    const heal = await world.fault('silence')();
    try {
      atOnce(await endsOf(callsOf(link), OVER_MS));
    } finally {
      await heal();
    }
    await answering(world, link);
    for (const [at, code] of (await endsOf(callsOf(link), OVER_MS)).entries())
      same(code, 'answered', `call ${at}`);
  },

  async 'a connection that is opened while an engine is silent works after it'(world) {
    const heal = await world.fault('silence')();
    const link = world.connect();
    try {
      atOnce(await endsOf([link.renew('aaaaaa', '', TTL_MS)], OVER_MS));
    } finally {
      await heal();
    }
    await answering(world, link);
  },

  async 'no commit is lost or doubled while an engine is silent'(world) {
    const silence = world.fault('silence');
    const link = world.connect();
    await answering(world, link);
    let isOver = false;
    const ids = Array.from({ length: 10 }, (_, i) => `sess_${i}`);
    const all = Promise.all(ids.map((id) => commits(link, id, () => isOver)));
    const counts = await meanwhile(
      all,
      async () => {
        await pause(100);
        const heal = await silence();
        await pause(1.5 * ENGINE_TIMEOUT_MS);
        await heal();
        await pause(200);
      },
      () => {
        isOver = true;
      },
    );
    for (const [i, count] of counts.entries()) {
      const numbers = Array.from({ length: count }, (_, n) => String(n + 1));
      const names = numbers.map((number) => `m${number}`);
      const { fields = new Map() } = (await link.readSession(ids[i] as string, names)) ?? {};
      same(
        names.map((name) => fields.has(name) && Buffer.from(fields.get(name) ?? []).toString()),
        numbers,
      );
    }
  },

  async 'no part is lost or doubled while an engine is silent, and readers hear of parts after it'(world) {
    const silence = world.fault('silence');
    const [writer, reader] = [world.connectLogs(), world.connectLogs()];
    const head = headOf();
    await writer.open(head, BOUNDS, LIVE_MS);
    let heard = 0;
    const stop = reader.watch(head.id, () => heard++);
    let isOver = false;
    const records = await meanwhile(
      parts(writer, head, () => isOver),
      async () => {
        await pause(100);
        const heal = await silence();
        await pause(1.5 * ENGINE_TIMEOUT_MS);
        await heal();
        await pause(100);
        const before = heard;
        await world.eventually(
          () => heard,
          (times) => ok(times > before, 'a reader is told nothing more'),
        );
      },
      () => {
        isOver = true;
      },
    );
    stop();
    same(await readAll(reader, head.id), records);
  },

  async 'an export continues after an answer was lost'(world) {
    const [link, store] = [world.connect(), world.connectStore()];
    const ids = Array.from({ length: 20 }, (_, i) => `${ID}${i}`);
    for (const id of ids) await link.writeSession(id, writeOf(1, { begin: id }));
    const exported: string[] = [];
    for await (const item of store.exports()) {
      if (item.kind === 'session' && exported.push(item.id) === 1) await world.fault('loseAnswers')(1);
    }
    same(exported.toSorted(), ids.toSorted());
  },

  async 'a slow engine is waited for'(world) {
    const link = world.connect();
    await link.renew('aaaaaa', '', TTL_MS);
    const heal = await world.fault('slow')(300);
    try {
      for (const [at, code] of (await endsOf(callsOf(link), OVER_MS)).entries())
        same(code, 'answered', `call ${at}`);
    } finally {
      await heal();
    }
  },

  async 'a full engine refuses what does not fit, changes nothing, and continues when it has room'(world) {
    const link = world.connect();
    await link.writeSession(ID, writeOf(1, { begin: 'b', m1: 'one' }));
    const next = writeOf(2, { m2: 'x'.repeat(4_096) }, { after: 1, remove: ['m1'] });
    const put = () => link.table('names').put('k', { holder: 's', record: '' }, null);
    const heal = await world.fault('fill')();
    try {
      await refused(link.writeSession(ID, next));
      await refused(put());
      same(textsOf((await link.readSession(ID, ['begin', 'm1', 'm2']))?.fields), { begin: 'b', m1: 'one' });
    } finally {
      await heal();
    }
    await answering(world, link);
    same(await link.writeSession(ID, next), 'written');
    same(await put(), { isDone: true, position: 1 });
    same(Object.keys(textsOf((await link.claimSession(ID, moveTo('b')))?.fields)), ['begin', 'm2']);
  },

  async 'a full engine takes no parts, and all of them when it has room'(world) {
    const logs = world.connectLogs();
    const head = headOf();
    await logs.open(head, BOUNDS, LIVE_MS);
    const [first, more] = [[recordOf('one')], [recordOf('x'.repeat(4_096)), recordOf('three')]];
    await logs.append(batchOf(head, [], first), BOUNDS, LIVE_MS);
    const heal = await world.fault('fill')();
    try {
      await refused(logs.append(batchOf(head, first, more), BOUNDS, LIVE_MS));
      same(await readAll(logs, head.id), first);
    } finally {
      await heal();
    }
    await world.eventually(
      () => logs.append(batchOf(head, first, more), BOUNDS, LIVE_MS),
      (outcome) => same(outcome, 'done'),
    );
    same(await readAll(logs, head.id), [...first, ...more]);
  },

  async 'what was answered outlives a restart, unless the engine is volatile'(world) {
    const restart = world.fault('restart');
    const link = world.connect();
    const isVolatile = await link.isVolatile();
    const table = link.table('names');
    await link.renew('aaaaaa', '', TTL_MS);
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    await link.writeSession(ID, writeOf(2, { m2: 'two' }, { after: 1 }));
    await link.claimSession(ID, moveTo('bbbbbb'));
    await link.moveSession('sess_moved', moveTo('bbbbbb', 4));
    await link.reserveCapacity('ada', 'one', { ...CAPACITY, bytes: 100 });
    await table.put('k', { holder: 's', record: 'r' }, null);
    const key = await table.shareKey('key');
    await restart();
    await answering(world, link);
    if (isVolatile) return;
    const reading = await link.readSession(ID, ['begin', 'm2']);
    same([reading?.owner, reading?.epoch], ['bbbbbb', 1]);
    same(textsOf(reading?.fields), { begin: 'b', m2: 'two' });
    same(await link.writeSession(ID, writeOf(3, { m3: '' }, { after: 2 })), 'fenced');
    const own = writeOf(1, { m3: '' }, { owner: 'bbbbbb', epoch: 1, isFirst: false });
    same(await link.writeSession(ID, own), 'written');
    same(await link.findSession('sess_moved'), { owner: 'bbbbbb', epoch: 5 });
    same(await link.reserveCapacity('ada', 'two', { ...CAPACITY, bytes: 1 }), undefined);
    same(await table.read(), { entries: new Map([['k', { holder: 's', record: 'r' }]]), position: 1 });
    same(await table.changes(0), [{ position: 1, key: 'k', entry: { holder: 's', record: 'r' } }]);
    same(await table.shareKey('other'), key);
  },

  async 'parts outlive a restart, unless the engine is volatile'(world) {
    const restart = world.fault('restart');
    const [link, logs] = [world.connect(), world.connectLogs()];
    const isVolatile = await link.isVolatile();
    const head = headOf({ name: 'n' });
    await logs.open({ ...head, by: 'aaaaaa', epoch: 1 }, BOUNDS, LIVE_MS);
    const records = [recordOf('one'), recordOf('two')];
    same(await logs.append({ ...batchOf(head, [], records), epoch: 1 }, BOUNDS, LIVE_MS), 'done');
    await restart();
    await answering(world, link);
    await world.eventually(
      () => codeOf(logs.find(head.id)),
      (code) => same(code, 'answered'),
    );
    if (isVolatile) return;
    same(await readAll(logs, head.id), records);
    like(await logs.named(head.owner, 'n'), { id: head.id, by: 'aaaaaa', epoch: 1, parts: 2 });
    same(await logs.append(batchOf(head, records, [recordOf('three')]), BOUNDS, LIVE_MS), 'ended');
  },

  async 'an engine that has lost its data says that it has forgotten the nodes'(world) {
    const loseData = world.fault('loseData');
    const [link, other] = [world.connect(), world.connect()];
    await link.renew('aaaaaa', '', TTL_MS);
    same((await link.renew('aaaaaa', '', TTL_MS)).hasForgotten, false);
    await loseData();
    // Another node has announced itself first.
    await other.renew('cccccc', '', TTL_MS);
    await refused(link.find('bbbbbb'), ['connection_failed']);
    same((await link.renew('aaaaaa', '', TTL_MS)).hasForgotten, true);
    same((await link.renew('aaaaaa', '', TTL_MS)).hasForgotten, false);
    same(await link.find('bbbbbb'), undefined);
    await link.withdraw('aaaaaa');
    same((await link.renew('aaaaaa', '', TTL_MS)).hasForgotten, false);
  },

  async 'an engine that has lost its data says so of records and changes, and takes them again'(world) {
    const loseData = world.fault('loseData');
    const link = world.connect();
    const table = link.table('names');
    await link.writeSession(ID, writeOf(1, { begin: 'b' }));
    for (const record of ['1', '2', '3']) await table.put('k', { holder: 's', record });
    await loseData();
    same(await link.findSession(ID), undefined);
    same(await link.writeSession(ID, writeOf(2, { m2: 'x' }, { after: 1 })), 'gone');
    same(await link.claimSession(ID, moveTo('bbbbbb')), undefined);
    const all = writeOf(2, { begin: 'b', m2: 'x' }, { after: 1, replaces: true });
    same(await link.writeSession(ID, all), 'written');
    same(textsOf((await link.claimSession(ID, moveTo('bbbbbb')))?.fields), { begin: 'b', m2: 'x' });
    same(await table.changes(3), undefined);
    same(await table.read(), { entries: new Map(), position: 0 });
    await table.put('k', { holder: 's', record: '' }, null);
    same((await table.changes(0))?.length, 1);
  },

  async 'an engine that has lost its data takes no parts of a reply that it had'(world) {
    const loseData = world.fault('loseData');
    const logs = world.connectLogs();
    const head = headOf({ name: 'n' });
    await logs.open(head, BOUNDS, LIVE_MS);
    const first = [recordOf('one')];
    await logs.append(batchOf(head, [], first), BOUNDS, LIVE_MS);
    await loseData();
    same(await logs.append(batchOf(head, first, [recordOf('two')]), BOUNDS, LIVE_MS), 'gone');
    same(await logs.keep(head, LIVE_MS), { outcome: 'gone' });
    same(await logs.find(head.id), undefined);
    same(await logs.read(head.id, 0), undefined);
    same(await logs.named(head.owner, 'n'), undefined);
  },
};
