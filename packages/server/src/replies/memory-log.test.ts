import { isProtocolError } from '@parlance/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ReplyEnd, type ReplyHead, SMALL_END } from './log.js';
import { MemoryReplyLog, type ReplyBounds } from './memory-log.js';

const WIDE: ReplyBounds = { maxReplies: 1e9, maxReplyBytes: 1e9, maxOwnerBytes: 1e9, maxBytes: 1e9 };

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
  it('does what a simple one does, within its bounds', () => {
    fc.assert(
      fc.property(steps, (history) => {
        const bounds = { maxReplies: 4, maxReplyBytes: 20_000, maxOwnerBytes: 40_000, maxBytes: 50_000 };
        const log = new MemoryReplyLog(bounds);
        const kept = new Map<string, Kept>();
        let [now, opened] = [0, 0];
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
              startedAt: now,
            });
            const held = [...kept.values()].filter((each) => each.head.owner === step.owner).length;
            const refused = isRefused(() => log.open(head));
            if (held >= bounds.maxReplies) expect(refused).toBe(true);
            if (!refused) kept.set(id, { head, records: [], end: undefined });
          } else if (step.do === 'sweep') {
            now += step.ms;
            log.sweep(now);
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
              log.drop(id);
              forget(id);
            }
          }
          expect(log.usage.bytes).toBeLessThanOrEqual(bounds.maxBytes);
        }
        // It knows the same replies, and their parts from any part on.
        for (const { head, records, end } of kept.values()) {
          expect(log.find({ id: head.id })).toEqual({ ...head, parts: records.length, end });
          for (let after = 0; after <= records.length + 1; after++) {
            const read: Uint8Array[] = [];
            let pieces = log.read(head.id, after);
            while (pieces !== undefined && pieces.records.length > 0) {
              read.push(...pieces.records);
              pieces = log.read(head.id, after + read.length);
            }
            expect(read).toEqual(records.slice(after));
            expect(pieces?.end).toEqual(end);
          }
          const last = records.findLast((record) => record[0] === 0x20);
          expect(log.read(head.id, records.length)?.metadata).toEqual(last?.subarray(2, 3));
        }
        expect(log.usage.replies).toBe(kept.size);
        for (const owner of ['ada', 'bob', 'ada:x']) {
          for (const name of ['x', 'y', 'x:y']) {
            expect(log.find({ owner, name })?.id).toBe(named(owner, name));
          }
          const listed = [...kept.values()]
            .filter(({ head }) => head.owner === owner || head.share !== undefined)
            .map(({ head }) => head.id)
            .reverse();
          expect([...log.list(owner)].map(({ id }) => id)).toEqual(listed);
        }
        // All memory is given back.
        for (const id of kept.keys()) log.drop(id);
        expect(log.usage).toEqual({ replies: 0, bytes: 0 });
      }),
      // The same runs each time, which meet every bound.
      { numRuns: 300, seed: 1 },
    );
    expect([...refusals].sort()).toEqual(['over_budget', 'reply_too_large', 'too_many_replies']);
  });

  it('tells its watchers of each part, the end and the loss of a reply, until they stop', () => {
    const log = new MemoryReplyLog(WIDE);
    log.open(headOf('reply_a'));
    let told = 0;
    const stop = log.watch('reply_a', () => told++);
    log.watch('reply_none', () => told++)();
    log.append('reply_a', plain(1));
    log.end('reply_a', endOf(0));
    log.append('reply_a', plain(1));
    log.drop('reply_a');
    expect(told).toBe(3);
    stop();
    expect(log.read('reply_a', 0)).toBeUndefined();
  });

  it('lists while replies come and go, each one that stays once', () => {
    const log = new MemoryReplyLog(WIDE);
    for (let i = 0; i < 10; i++) log.open(headOf(`reply_${i}`, { owner: i % 2 ? 'ada' : 'bob', share: '1' }));
    const seen: string[] = [];
    for (const { id } of log.list('ada')) {
      seen.push(id);
      if (id === 'reply_7') for (const gone of [7, 6, 5, 8]) log.drop(`reply_${gone}`);
      if (id === 'reply_4') log.open(headOf('reply_new', { share: '1' }));
    }
    expect(seen).toEqual([
      'reply_9',
      'reply_8',
      'reply_7',
      'reply_4',
      'reply_3',
      'reply_2',
      'reply_1',
      'reply_0',
    ]);
  });
});

// --- bounds

describe('a reply that another node hands over', () => {
  const given = (log: MemoryReplyLog, id: string, startedAt: number, rest: Partial<ReplyHead> = {}) => {
    const received = log.receive(headOf(id, { startedAt, ...rest }));
    received.append(plain(1));
    received.end(endOf(5));
    return received;
  };

  it('counts from its beginning and cannot be read before it is whole', () => {
    const log = new MemoryReplyLog({ ...WIDE, maxReplies: 1 });
    const received = given(log, 'reply_a', 1, { name: 'x', share: '1' });
    expect(codeOf(() => log.open(headOf('reply_b')))).toBe('too_many_replies');
    expect(codeOf(() => void log.receive(headOf('reply_b')))).toBe('too_many_replies');
    expect(log.usage.bytes).toBeGreaterThan(0);
    const seen = () => [
      log.has('reply_a'),
      log.find({ id: 'reply_a' })?.id,
      log.find({ owner: 'ada', name: 'x' })?.id,
    ];
    expect(seen()).toEqual([false, undefined, undefined]);
    expect([...log.list('ada'), ...log.list('bob'), ...log.all()]).toEqual([]);
    received.publish();
    expect(seen()).toEqual([true, 'reply_a', 'reply_a']);
    expect([...log.list('ada'), ...log.list('bob')].map(({ id }) => id)).toEqual(['reply_a', 'reply_a']);
    expect(log.read('reply_a', 0)).toEqual({ records: [plain(1)], metadata: undefined, end: endOf(5) });
    log.sweep(1_005);
    expect(log.usage).toEqual({ replies: 0, bytes: 0 });
  });

  it('leaves nothing if it does not become whole', () => {
    const log = new MemoryReplyLog(WIDE);
    given(log, 'reply_a', 1, { name: 'x', share: '1' }).drop();
    expect(log.usage).toEqual({ replies: 0, bytes: 0 });
    expect([...log.list('ada'), ...log.list('bob')]).toEqual([]);
  });

  it('gives its name back to the newest one that is left, and to none that has not arrived', () => {
    const log = new MemoryReplyLog(WIDE);
    const named = () => log.find({ owner: 'ada', name: 'x' })?.id;
    for (const time of [10, 30]) log.open(headOf(`reply_${time}`, { startedAt: time, name: 'x' }));
    log.open(headOf('reply_40', { startedAt: 40, name: 'y' }));
    const arriving = given(log, 'reply_20', 20, { name: 'x' });
    log.drop('reply_30');
    expect(named()).toBe('reply_10');
    arriving.publish();
    expect(named()).toBe('reply_20');
    log.drop('reply_10');
    expect(named()).toBe('reply_20');
    log.drop('reply_20');
    expect(named()).toBeUndefined();
  });

  it('stands in lists where it began, and has its name only if it is the newest', () => {
    const log = new MemoryReplyLog(WIDE);
    for (const time of [10, 20, 30])
      log.open(headOf(`reply_${time}`, { startedAt: time, name: 'x', share: '1' }));
    for (const time of [15, 5, 25]) given(log, `reply_${time}`, time, { name: 'x', share: '1' }).publish();
    const newest = ['reply_30', 'reply_25', 'reply_20', 'reply_15', 'reply_10', 'reply_5'];
    expect([...log.list('ada')].map(({ id }) => id)).toEqual(newest);
    expect([...log.list('bob')].map(({ id }) => id)).toEqual(newest);
    expect(log.find({ owner: 'ada', name: 'x' })?.id).toBe('reply_30');
    given(log, 'reply_35', 35, { name: 'x', share: '1' }).publish();
    expect(log.find({ owner: 'ada', name: 'x' })?.id).toBe('reply_35');
    expect([...log.list('bob')][0]?.id).toBe('reply_35');
    // This one begins now, by a clock that was set back.
    log.open(headOf('reply_1', { startedAt: 1, name: 'x', share: '1' }));
    expect(log.find({ owner: 'ada', name: 'x' })?.id).toBe('reply_1');
  });

  it('stands behind as many shared ones as a list shows, and no more', () => {
    const shared = (count: number) => {
      const log = new MemoryReplyLog(WIDE);
      for (let i = 0; i < count; i++) log.open(headOf(`reply_${i}`, { startedAt: 10, share: '1' }));
      given(log, 'reply_old', 1, { share: '1' }).publish();
      return [...log.list('bob')].findIndex(({ id }) => id === 'reply_old');
    };
    expect([shared(1_000), shared(1_001)]).toEqual([1_000, 1_000]);
  });
});

describe('the bounds of a log in memory', () => {
  const empty = (() => {
    const log = new MemoryReplyLog(WIDE);
    log.open(headOf('reply_a'));
    return log.usage.bytes;
  })();

  it('of replies are an owner’s, and refuse at n + 1', () => {
    const log = new MemoryReplyLog({ ...WIDE, maxReplies: 3 });
    for (let i = 0; i < 3; i++) log.open(headOf(`reply_${i}`));
    expect(codeOf(() => log.open(headOf('reply_3')))).toBe('too_many_replies');
    expect(codeOf(() => log.open(headOf('reply_b', { owner: 'bob' })))).toBeUndefined();
    log.drop('reply_1');
    expect(codeOf(() => log.open(headOf('reply_3')))).toBeUndefined();
  });

  it.each([
    ['a reply', 'maxReplyBytes', 'reply_too_large'],
    ['an owner', 'maxOwnerBytes', 'over_budget'],
    ['all replies', 'maxBytes', 'over_budget'],
  ] as const)('of %s let n bytes through and refuse n + 1, of which nothing stays', (_what, bound, code) => {
    // The first part takes a buffer and an entry of the index.
    const log = new MemoryReplyLog({ ...WIDE, [bound]: empty + 16 + 10_002 });
    log.open(headOf('reply_a'));
    expect(codeOf(() => log.append('reply_a', plain(10_000)))).toBe(code);
    expect(log.usage).toEqual({ replies: 1, bytes: empty });
    expect(log.read('reply_a', 0)?.records).toEqual([]);
    expect(codeOf(() => log.append('reply_a', plain(9_999)))).toBeUndefined();
    expect(log.usage.bytes).toBe(empty + 16 + 10_002);
    log.drop('reply_a');
    expect(log.usage).toEqual({ replies: 0, bytes: 0 });
  });

  it.each([
    ['maxReplyBytes', 'reply_too_large'],
    ['maxOwnerBytes', 'over_budget'],
    ['maxBytes', 'over_budget'],
  ] as const)('refuse a reply at its beginning and leave nothing behind (%s)', (bound, code) => {
    const fits = new MemoryReplyLog({ ...WIDE, [bound]: empty });
    expect(codeOf(() => fits.open(headOf('reply_a')))).toBeUndefined();
    const log = new MemoryReplyLog({ ...WIDE, [bound]: empty - 1 });
    expect(codeOf(() => log.open(headOf('reply_a', { name: 'x', share: '1' })))).toBe(code);
    expect(log.usage).toEqual({ replies: 0, bytes: 0 });
    expect(log.find({ owner: 'ada', name: 'x' })).toBeUndefined();
    expect([...log.list('bob')]).toEqual([]);
  });

  it('hold for the end too: a small one always fits, a large one is refused and may be replaced', () => {
    const log = new MemoryReplyLog({ ...WIDE, maxReplyBytes: empty });
    log.open(headOf('reply_a'));
    log.open(headOf('reply_b'));
    log.end('reply_a', endOf(0, { metadata: new Uint8Array(SMALL_END) }));
    expect(log.usage.bytes).toBe(2 * empty);
    const large = { failure: new Uint8Array(SMALL_END), metadata: new Uint8Array(1) };
    expect(codeOf(() => log.end('reply_b', endOf(0, { metadata: new Uint8Array(SMALL_END + 289) })))).toBe(
      'reply_too_large',
    );
    expect(log.find({ id: 'reply_b' })?.end).toBeUndefined();
    expect(codeOf(() => log.end('reply_b', endOf(0, large)))).toBe('reply_too_large');
    log.end('reply_b', endOf(7));
    expect(log.find({ id: 'reply_b' })?.end?.at).toBe(7);
    expect(log.usage.bytes).toBe(2 * empty);
  });
});
