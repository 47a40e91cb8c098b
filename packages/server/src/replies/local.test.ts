import { isProtocolError } from '@parlance/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memoryReplies } from '../engine/logs/memory.js';
import { type ReplyEnd, type ReplyEntry, type ReplyHead, SMALL_END } from '../engine/logs/reply.js';
import { ReplyLog, type ReplyLogOptions } from './log.js';

/** Kept replies in the memory of the only server of a process. */

type Bounds = ReplyLogOptions['bounds'];

const WIDE: Bounds = { maxReplies: 1e9, maxReplyBytes: 1e9, maxOwnerBytes: 1e9, maxBytes: 1e9 };

const headOf = (id: string, rest: Partial<ReplyHead> = {}): ReplyHead => ({
  id,
  owner: 'ada',
  principal: 'ada',
  name: undefined,
  share: undefined,
  encoding: undefined,
  ttlMs: 1_000,
  startedAt: 0,
  ...rest,
});
const endOf = (at: number, rest: Partial<ReplyEnd> = {}): ReplyEnd => ({
  at,
  failure: undefined,
  metadata: undefined,
  ...rest,
});
/** A plain part; see record.ts. */
const plain = (length: number, fill = 1) => new Uint8Array(1 + length).fill(fill, 1);
/** A part with metadata. */
const described = (metadata: number) => Uint8Array.of(0x20, 1, metadata, 7);

class LocalLog extends ReplyLog {
  readonly #memory;

  constructor(bounds: Bounds, onDropped: (reply: ReplyEntry) => void = () => {}, now = () => 0) {
    const memory = memoryReplies(now, { maxBytes: bounds.maxBytes, onDropped });
    super({
      ...{ engine: memory, local: memory.local, bounds, incarnation: 'aaaaaa', now: () => 0 },
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      isAlive: async () => false,
    });
    this.#memory = memory;
  }

  /** Also one that has ended. */
  forget(id: string): void {
    this.#memory.local.drop({ id });
  }
}

async function listed(log: LocalLog, owner: string, onEntry = (_id: string) => {}): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of log.list(owner)) {
    ids.push(id);
    onEntry(id);
  }
  return ids;
}

const codeOf = (task: () => void): string | undefined => {
  try {
    task();
  } catch (error) {
    if (isProtocolError(error)) return error.code;
    throw error;
  }
  return undefined;
};

// --- against a model

interface Kept {
  readonly head: ReplyHead;
  readonly records: Uint8Array[];
  end: ReplyEnd | undefined;
}

type Step =
  | {
      readonly do: 'open';
      readonly owner: string;
      readonly name: string | undefined;
      readonly isShared: boolean;
      readonly ttlMs: number;
    }
  | { readonly do: 'append'; readonly pick: number; readonly record: Uint8Array }
  | { readonly do: 'end'; readonly pick: number; readonly failure: Uint8Array | undefined }
  | { readonly do: 'drop'; readonly pick: number }
  | { readonly do: 'sweep'; readonly ms: number };

const pick = fc.nat({ max: 30 });
const records = fc.oneof(
  fc.nat({ max: 8_000 }).map((size) => plain(size)),
  fc.nat({ max: 100 }).map(described),
);
const steps = fc.array(
  fc.oneof<fc.Arbitrary<Step>[]>(
    fc.record({
      do: fc.constant('open' as const),
      owner: fc.constantFrom('ada', 'bob', 'ada:x'),
      name: fc.option(fc.constantFrom('x', 'y', 'x:y'), { nil: undefined }),
      isShared: fc.boolean(),
      ttlMs: fc.constantFrom(10, 100),
    }),
    fc.record({ do: fc.constant('append' as const), pick, record: records }),
    fc.record({ do: fc.constant('append' as const), pick, record: records }),
    fc.record({
      do: fc.constant('end' as const),
      pick,
      failure: fc.option(
        fc.nat({ max: 2_000 }).map((size) => new Uint8Array(size)),
        { nil: undefined },
      ),
    }),
    fc.record({ do: fc.constant('drop' as const), pick: fc.nat({ max: 90 }) }),
    fc.record({ do: fc.constant('sweep' as const), ms: fc.nat({ max: 60 }) }),
  ),
  { minLength: 1, maxLength: 80, size: 'max' },
);

const refusals = new Set<string>();
/** The model follows the log, whose bounds have tests of their own. */
const isRefused = (task: () => void): boolean => {
  const code = codeOf(task);
  if (code !== undefined) refusals.add(code);
  return code !== undefined;
};

describe('a log in memory', () => {
  it('does what a simple one does, within its bounds', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (history) => {
        const bounds = { maxReplies: 4, maxReplyBytes: 20_000, maxOwnerBytes: 40_000, maxBytes: 50_000 };
        let now = 0;
        const log = new LocalLog(bounds, undefined, () => now);
        const kept = new Map<string, Kept>();
        let opened = 0;
        const forget = (id: string) => void kept.delete(id);
        /** The newest one that is kept, also after its end. */
        const named = (owner: string, name: string) =>
          [...kept.values()].findLast(({ head }) => head.owner === owner && head.name === name)?.head.id;
        const chosen = (i: number): Kept | undefined => [...kept.values()][i % Math.max(1, kept.size)];
        for (const step of history) {
          if (step.do === 'open') {
            const id = `reply_${opened++}`;
            const head = headOf(id, {
              owner: step.owner,
              name: step.name,
              share: step.isShared ? '{}' : undefined,
              ttlMs: step.ttlMs,
              startedAt: opened,
            });
            const held = [...kept.values()].filter((each) => each.head.owner === step.owner).length;
            const refused = isRefused(() => log.open(head));
            if (held >= bounds.maxReplies) expect(refused).toBe(true);
            if (!refused) kept.set(id, { head, records: [], end: undefined });
          } else if (step.do === 'sweep') {
            now += step.ms;
            log.sweep();
            for (const { head, end } of [...kept.values()]) {
              if (end !== undefined && now >= end.at + head.ttlMs) forget(head.id);
            }
          } else {
            const reply = chosen(step.pick);
            const id = reply?.head.id ?? 'reply_none';
            if (step.do === 'append') {
              const refused = isRefused(() => log.append(id, step.record));
              if (!refused && reply?.end === undefined) reply?.records.push(step.record);
            } else if (step.do === 'end') {
              const end = endOf(now, { failure: step.failure });
              const refused = isRefused(() => log.end(id, end));
              if (!refused && reply !== undefined) reply.end ??= end;
            } else {
              log.forget(id);
              forget(id);
            }
          }
          expect(log.usage.bytes).toBeLessThanOrEqual(bounds.maxBytes);
        }
        // It knows the same replies, and their parts from any part on.
        for (const { head, records, end } of kept.values()) {
          const found = await log.find({ id: head.id });
          expect(found).toMatchObject({ ...head, parts: records.length });
          expect(found?.end?.at).toBe(end?.at);
          for (let after = 0; after <= records.length + 1; after++) {
            const read: Uint8Array[] = [];
            let pieces = await log.read(head.id, after);
            while (pieces !== undefined && pieces.records.length > 0) {
              read.push(...pieces.records);
              pieces = await log.read(head.id, after + read.length);
            }
            expect(read).toEqual(records.slice(after));
            expect(pieces?.end).toEqual(end);
          }
          const last = records.findLast((record) => record[0] === 0x20);
          expect((await log.read(head.id, records.length))?.metadata).toEqual(last?.subarray(2, 3));
        }
        expect(log.usage.replies).toBe(kept.size);
        for (const owner of ['ada', 'bob', 'ada:x']) {
          for (const name of ['x', 'y', 'x:y']) {
            expect((await log.find({ owner, name }))?.id).toBe(named(owner, name));
          }
          const known = [...kept.values()]
            .filter(({ head }) => head.owner === owner || head.share !== undefined)
            .map(({ head }) => head.id)
            .reverse();
          expect(await listed(log, owner)).toEqual(known);
        }
        // All memory is given back.
        for (const id of kept.keys()) log.forget(id);
        expect(log.usage).toEqual({ replies: 0, bytes: 0 });
      }),
      // The same runs each time, which meet every bound.
      { numRuns: 300, seed: 1 },
    );
    expect([...refusals].sort()).toEqual(['over_budget', 'reply_too_large', 'too_many_replies']);
  });

  it('tells its watchers of each part and the end of a reply, until they stop', async () => {
    const log = new LocalLog(WIDE);
    log.open(headOf('reply_a'));
    let told = 0;
    const stop = log.watch('reply_a', () => told++);
    log.watch('reply_none', () => told++)();
    log.append('reply_a', plain(1));
    log.end('reply_a', endOf(0));
    log.append('reply_a', plain(1));
    expect(told).toBe(2);
    log.forget('reply_a');
    expect(await log.read('reply_a', 0)).toBeUndefined();
    stop();
    log.open(headOf('reply_b'));
    log.watch('reply_b', () => told++)();
    log.append('reply_b', plain(1));
    expect(told).toBe(2);
  });

  it('lists a reply that begins by a clock that was set back as the newest, and finds it by its name', async () => {
    const log = new LocalLog(WIDE);
    for (const time of [30, 1]) log.open(headOf(`reply_${time}`, { startedAt: time, name: 'x', share: '1' }));
    for (const owner of ['ada', 'bob']) expect(await listed(log, owner)).toEqual(['reply_1', 'reply_30']);
    const named = async () => (await log.find({ owner: 'ada', name: 'x' }))?.id;
    expect(await named()).toBe('reply_1');
    log.forget('reply_1');
    expect(await named()).toBe('reply_30');
    log.forget('reply_30');
    expect(await named()).toBeUndefined();
  });

  it('lists while replies come and go, each one that stays once', async () => {
    const log = new LocalLog(WIDE);
    for (let i = 0; i < 10; i++)
      log.open(headOf(`reply_${i}`, { owner: i % 2 ? 'ada' : 'bob', share: '1', startedAt: i }));
    const seen = await listed(log, 'ada', (id) => {
      if (id === 'reply_7') for (const gone of [7, 6, 5, 8]) log.forget(`reply_${gone}`);
      if (id === 'reply_4') log.open(headOf('reply_new', { share: '1', startedAt: 10 }));
    });
    // Those that have gone meanwhile may be in the page that was read before.
    const stays = [9, 8, 7, 4, 3, 2, 1, 0].map((i) => `reply_${i}`);
    expect(seen.filter((id) => id !== 'reply_6' && id !== 'reply_5')).toEqual(stays);
    expect(new Set(seen).size).toBe(seen.length);
  });
});

// --- bounds

describe('the bounds of a log in memory', () => {
  const empty = (() => {
    const log = new LocalLog(WIDE);
    log.open(headOf('reply_a'));
    return log.usage.bytes;
  })();

  it('forgets a reply by its own clock, and not by the time that its end states', async () => {
    let now = 5;
    const log = new LocalLog(WIDE, undefined, () => now);
    log.open({ ...headOf('reply_a'), ttlMs: 100 });
    log.end('reply_a', { at: 1e12, failure: undefined, metadata: undefined });
    for (now = 104; now <= 105; now++) {
      log.sweep();
      expect(log.usage.replies).toBe(now < 105 ? 1 : 0);
    }
  });

  it('of replies are an owner’s, and refuse at n + 1', async () => {
    const log = new LocalLog({ ...WIDE, maxReplies: 3 });
    for (let i = 0; i < 3; i++) log.open(headOf(`reply_${i}`));
    expect(codeOf(() => log.open(headOf('reply_3')))).toBe('too_many_replies');
    expect(codeOf(() => log.open(headOf('reply_b', { owner: 'bob' })))).toBeUndefined();
    log.forget('reply_1');
    expect(codeOf(() => log.open(headOf('reply_3')))).toBeUndefined();
  });

  it.each([
    ['a reply', 'maxReplyBytes', 'reply_too_large'],
    ['an owner', 'maxOwnerBytes', 'over_budget'],
  ] as const)(
    'of %s let n bytes through and refuse n + 1, of which nothing stays',
    async (_what, bound, code) => {
      // The first part takes a buffer and an entry of the index.
      const log = new LocalLog({ ...WIDE, [bound]: empty + 16 + 10_002 });
      log.open(headOf('reply_a'));
      expect(codeOf(() => log.append('reply_a', plain(10_000)))).toBe(code);
      expect(log.usage).toEqual({ replies: 1, bytes: empty });
      expect((await log.read('reply_a', 0))?.records).toEqual([]);
      expect(codeOf(() => log.append('reply_a', plain(9_999)))).toBeUndefined();
      expect(log.usage.bytes).toBe(empty + 16 + 10_002);
      log.forget('reply_a');
      expect(log.usage).toEqual({ replies: 0, bytes: 0 });
    },
  );

  it.each([
    ['maxReplyBytes', 'reply_too_large'],
    ['maxOwnerBytes', 'over_budget'],
    ['maxBytes', 'over_budget'],
  ] as const)('refuse a reply at its beginning and leave nothing behind (%s)', async (bound, code) => {
    const fits = new LocalLog({ ...WIDE, [bound]: empty });
    expect(codeOf(() => fits.open(headOf('reply_a')))).toBeUndefined();
    const log = new LocalLog({ ...WIDE, [bound]: empty - 1 });
    expect(codeOf(() => log.open(headOf('reply_a', { name: 'x', share: '1' })))).toBe(code);
    expect(log.usage).toEqual({ replies: 0, bytes: 0 });
    expect(await log.find({ owner: 'ada', name: 'x' })).toBeUndefined();
    expect(await listed(log, 'bob')).toEqual([]);
  });

  it('hold for the end too: a small one always fits, a large one is refused and may be replaced', async () => {
    const log = new LocalLog({ ...WIDE, maxReplyBytes: empty });
    log.open(headOf('reply_a'));
    log.open(headOf('reply_b'));
    log.end('reply_a', endOf(0, { metadata: new Uint8Array(SMALL_END) }));
    expect(log.usage.bytes).toBe(2 * empty);
    const large = { failure: new Uint8Array(SMALL_END), metadata: new Uint8Array(1) };
    expect(codeOf(() => log.end('reply_b', endOf(0, { metadata: new Uint8Array(SMALL_END + 289) })))).toBe(
      'reply_too_large',
    );
    expect((await log.find({ id: 'reply_b' }))?.end).toBeUndefined();
    expect(codeOf(() => log.end('reply_b', endOf(0, large)))).toBe('reply_too_large');
    log.end('reply_b', endOf(7));
    expect((await log.find({ id: 'reply_b' }))?.end?.at).toBe(7);
    expect(log.usage.bytes).toBe(2 * empty);
  });
});

describe('the shares of owners', () => {
  const SIZE = 10_000;
  /** Bytes that a reply with one part of that size takes. */
  const taken = (() => {
    const log = new LocalLog(WIDE);
    log.open(headOf('reply_a'));
    log.append('reply_a', plain(SIZE));
    return log.usage.bytes;
  })();
  /** Bytes that it takes at its beginning. */
  const empty = (() => {
    const log = new LocalLog(WIDE);
    log.open(headOf('reply_a'));
    return log.usage.bytes;
  })();

  class Filled {
    readonly dropped: string[] = [];
    readonly log: LocalLog;

    constructor(bounds: Partial<Bounds>) {
      this.log = new LocalLog({ ...WIDE, ...bounds }, ({ id }) => this.dropped.push(id));
    }

    /** @returns why it has no room. */
    begin(id: string, owner: string): string | undefined {
      return codeOf(() => {
        this.log.open(headOf(id, { owner }));
        this.log.append(id, plain(SIZE));
      });
    }

    /** @param isRead by its requester. */
    end(id: string, isRead = false): void {
      this.log.end(id, endOf(0));
      this.log.release(id, isRead);
    }

    add(id: string, owner: string, isRead = false): string | undefined {
      const code = this.begin(id, owner);
      this.end(id, isRead);
      return code;
    }
  }

  it('are a third of what is free for replies that are being written: n bytes, and not n + 1', async () => {
    // A reply may take a third of the rest, so both together are 4 times its bytes.
    const maxBytes = 4 * taken;
    expect(new Filled({ maxBytes }).begin('reply_a', 'ada')).toBeUndefined();
    expect(new Filled({ maxBytes: maxBytes - 1 }).begin('reply_a', 'ada')).toBe('over_budget');
    const { log } = new Filled({ maxBytes: maxBytes - 1 });
    log.open(headOf('reply_a'));
    expect(codeOf(() => log.append('reply_a', plain(SIZE)))).toBe('over_budget');
    expect(log.usage).toEqual({ replies: 1, bytes: empty });
  });

  it('always leave room for one more, however many write as much as they can', async () => {
    const { log } = new Filled({ maxBytes: 400 * taken });
    const held: number[] = [];
    for (let owner = 0; owner < 12; owner++) {
      const before = log.usage.bytes;
      for (let i = 0; ; i++) {
        const id = `reply_${owner}_${i}`;
        if (codeOf(() => log.open(headOf(id, { owner: `${owner}` }))) !== undefined) break;
        if (codeOf(() => log.append(id, plain(SIZE))) !== undefined) break;
      }
      held.push(log.usage.bytes - before);
    }
    // The first gets a quarter, and the last no less than a 64th.
    expect(held[0]).toBeLessThanOrEqual(100 * taken);
    expect(held[0]).toBeGreaterThan(95 * taken);
    expect(Math.min(...held)).toBeGreaterThanOrEqual(5 * taken);
    expect(log.usage.bytes).toBeLessThanOrEqual(400 * taken);
  });

  it('go from the owner that holds most: first what was read to the end, then what has ended, the oldest first', async () => {
    const filled = new Filled({ maxBytes: 20 * taken });
    const { log, dropped } = filled;
    for (let i = 0; i < 8; i++) expect(filled.add(`reply_ada${i}`, 'ada', i === 5)).toBeUndefined();
    for (let i = 0; i < 4; i++) expect(filled.add(`reply_bob${i}`, 'bob', true)).toBeUndefined();
    expect(filled.begin('reply_run', 'ada')).toBeUndefined();
    // A follower reads one to the end, and another one not quite.
    await log.read('reply_ada3', 1);
    await log.read('reply_ada2', 0);
    for (let i = 0; dropped.length < 7; i++) expect(filled.add(`reply_c${i}`, `c${i}`)).toBeUndefined();
    expect(dropped.slice(0, 3)).toEqual(['reply_ada5', 'reply_ada3', 'reply_ada2']);
    expect(dropped.slice(3, 5)).toEqual(['reply_ada0', 'reply_ada1']);
    // Both hold as much by now; what is being written stays.
    expect(dropped.slice(5).every((id) => /ada|bob/.test(id))).toBe(true);
    expect(await log.find({ id: 'reply_run' })).toBeDefined();
    expect(log.usage.bytes).toBeLessThanOrEqual(20 * taken);
  });

  it('take nothing from an owner that holds less than the one that asks', async () => {
    const filled = new Filled({ maxBytes: 8 * taken, maxOwnerBytes: 100 * taken });
    for (let i = 0; i < 6; i++) filled.add(`reply_ada${i}`, 'ada');
    for (let i = 0; i < 2; i++) filled.add(`reply_bob${i}`, 'bob');
    expect(filled.add('reply_more', 'ada')).toBeUndefined();
    expect(filled.dropped.every((id) => id.startsWith('reply_ada'))).toBe(true);
    // Nothing of its own can go.
    const running = new Filled({ maxBytes: 8 * taken });
    for (let i = 0; i < 6; i++) running.add(`reply_c${i}`, `c${i}`);
    expect(running.begin('reply_run', 'ada')).toBeUndefined();
    const code = codeOf(() => {
      for (;;) running.log.append('reply_run', plain(SIZE));
    });
    expect(code).toBe('over_budget');
    expect(running.dropped).toEqual([]);
  });

  it.each([
    ['bytes', { maxOwnerBytes: 3 * taken }],
    ['replies', { maxReplies: 3 }],
  ])(
    'are bounds of an owner, in %s, within which its oldest reply goes for the next',
    async (_what, bounds) => {
      const filled = new Filled(bounds);
      filled.add('reply_bob', 'bob');
      for (let i = 0; i < 5; i++) expect(filled.add(`reply_${i}`, 'ada')).toBeUndefined();
      expect(filled.dropped).toEqual(['reply_0', 'reply_1']);
      for (let i = 5; i < 8; i++) expect(filled.begin(`reply_${i}`, 'ada')).toBeUndefined();
      const code = 'maxReplies' in bounds ? 'too_many_replies' : 'over_budget';
      expect(filled.begin('reply_8', 'ada')).toBe(code);
      expect(await filled.log.find({ id: 'reply_bob' })).toBeDefined();
    },
  );

  it('leave a reply that has ended to a requester that has not read it, and tell followers when it goes', async () => {
    const { log, dropped } = new Filled({ maxReplies: 1 });
    log.open(headOf('reply_a'));
    log.end('reply_a', endOf(0));
    let told = 0;
    log.watch('reply_a', () => told++);
    expect(codeOf(() => log.open(headOf('reply_b')))).toBe('too_many_replies');
    log.release('reply_a', true);
    expect(codeOf(() => log.open(headOf('reply_b')))).toBeUndefined();
    expect([told, dropped, await log.read('reply_a', 0)]).toEqual([1, ['reply_a'], undefined]);
  });
});
