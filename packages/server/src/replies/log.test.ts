import { ProtocolError } from '@parlance/protocol';
import { decodeFailure, newReplyId } from '@parlance/protocol/internal';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { batchCharge, type EngineHead, headCharge, type ReplyLogs, UNKNOWN } from '../engine/logs/logs.js';
import { memoryReplies } from '../engine/logs/memory.js';
import { Changes } from './changes.js';
import { BATCH_MS, MAX_PENDING, MAX_PENDING_BYTES } from './engine-writer.js';
import { ReplyLog } from './log.js';
import type { Failing } from './writer.js';

const BOUNDS = { maxReplies: 100, maxReplyBytes: 4 << 20, maxOwnerBytes: 32 << 20, maxBytes: 256 << 20 };
const LOGGER = { debug() {}, info() {}, warn() {}, error() {} };

const open: ReplyLog[] = [];
afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(open.splice(0).map((log) => log.close()));
});

interface TestNode {
  readonly log: ReplyLog;
  readonly incarnation: string;
  readonly failures: { readonly error: ProtocolError; readonly why: Failing }[];
  begin(rest?: Partial<EngineHead>): Promise<EngineHead>;
}

function nodeOf(
  engine: ReplyLogs,
  incarnation = 'aaaaaa',
  {
    alive = ['aaaaaa', 'bbbbbb'],
    ...rest
  }: Partial<{ alive: string[]; stallMs: number; isAwaited: () => Promise<boolean> }> & {
    bounds?: typeof BOUNDS;
  } = {},
): TestNode {
  const failures: TestNode['failures'] = [];
  const log = new ReplyLog({
    engine,
    bounds: BOUNDS,
    incarnation,
    logger: LOGGER,
    now: Date.now,
    isAlive: async (name) => alive.includes(name),
    retryMs: 1,
    ...rest,
  });
  open.push(log);
  return {
    log,
    incarnation,
    failures,
    async begin(head = {}) {
      const reply: EngineHead = {
        id: newReplyId(incarnation),
        owner: 'principal:ada',
        principal: 'ada',
        name: undefined,
        share: undefined,
        encoding: undefined,
        ttlMs: 60_000,
        startedAt: Date.now(),
        ...head,
      };
      await log.open(reply, (error, why) => failures.push({ error, why }));
      return reply;
    },
  };
}

const recordOf = (text: string) => Uint8Array.from([0, ...new TextEncoder().encode(text)]);
const END = () => ({ at: Date.now(), failure: undefined, metadata: undefined });
const tick = () => new Promise((resolve) => setImmediate(resolve));
const codeOf = (failure: Uint8Array | undefined) =>
  failure && (decodeFailure(failure, 8) as ProtocolError).code;

/** Numbers from 0 to 1 that differ, which those of a shrunk list need not. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Follows as the server does. @returns the parts, and the code of the failure at the end. */
async function follow(log: ReplyLog, id: string, after: number) {
  const news = new Changes((onChange) => log.watch(id, onChange), new AbortController().signal);
  const records: Uint8Array[] = [];
  try {
    for (let isOn = false; ; isOn = true) {
      const pieces = await log.read(id, after + records.length, isOn);
      if (pieces === undefined) throw new Error('there is no such reply');
      records.push(...pieces.records);
      if (pieces.end !== undefined) return { records, failure: codeOf(pieces.end.failure) };
      if (pieces.records.length === 0) await news.next();
    }
  } finally {
    news.stop();
  }
}

/** An engine whose calls come late, are lost, or have their answers lost; never two for one reply at a time. */
function unreliable(
  engine: ReplyLogs,
  random: () => number,
): ReplyLogs & { readonly calls: { append: number } } {
  const busy = new Set<string>();
  const calls = { append: 0 };
  const distort = async <Result>(run: () => Promise<Result>): Promise<Result> => {
    for (let ticks = Math.floor(random() * 3); ticks > 0; ticks--) await tick();
    const fate = random();
    if (fate < 0.15) throw new ProtocolError('timeout', 'the call was lost');
    const result = await run();
    for (let ticks = Math.floor(random() * 3); ticks > 0; ticks--) await tick();
    if (fate < 0.3) throw new ProtocolError('timeout', 'the answer was lost');
    return result;
  };
  const alone = async <Result>(id: string, run: () => Promise<Result>): Promise<Result> => {
    if (busy.has(id)) throw new Error('two calls at a time');
    busy.add(id);
    return await distort(run).finally(() => busy.delete(id));
  };
  return {
    calls,
    open: (head, ...rest) => alone(head.id, () => engine.open(head, ...rest)),
    claim: (key, ...rest) => alone(key.id, () => engine.claim(key, ...rest)),
    append(batch, ...rest) {
      calls.append++;
      return alone(batch.id, () => engine.append(batch, ...rest));
    },
    end: (end, bounds) => alone(end.id, () => engine.end(end, bounds)),
    keep: (key, liveMs) => distort(() => engine.keep(key, liveMs)),
    drop: (key) => distort(() => engine.drop(key)),
    find: (id) => distort(() => engine.find(id)),
    named: (owner, name) => distort(() => engine.named(owner, name)),
    read: (id, after) => distort(() => engine.read(id, after)),
    follow: (id) => distort(() => engine.follow(id)),
    list: (owner, before) => distort(() => engine.list(owner, before)),
    shared: () => engine.shared(),
    watch(id, onChanges) {
      // Some news never come, which is not always said; others come late, and in order.
      let last: Promise<unknown> = Promise.resolve();
      return engine.watch(id, (news) => {
        const fate = news === UNKNOWN ? 1 : random();
        if (fate < 0.1) return;
        last = last.then(tick).then(() => onChanges(fate < 0.2 ? UNKNOWN : news));
      });
    },
    // Writers are not told of what other nodes have ended.
    listen: () => () => {},
    vouch: (...proof) => engine.vouch(...proof),
    prove: (...proof) => engine.prove(...proof),
    close: () => engine.close(),
  };
}

describe('a reply in the engine', () => {
  it('is the same to all followers, from any part on, with calls and news that are lost', async () => {
    const step = fc.record({
      parts: fc.array(fc.string({ maxLength: 20 }), { maxLength: 90 }),
      ticks: fc.nat({ max: 6 }),
      follower: fc.option(fc.nat({ max: 400 })),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 10 }), fc.integer(), async (steps, seed) => {
        const random = randomOf(seed);
        const memory = memoryReplies(Date.now);
        const writer = nodeOf(unreliable(memory, random));
        const others = [nodeOf(unreliable(memory, random), 'bbbbbb'), writer];
        const { id } = await writer.begin();
        const all: Uint8Array[] = [];
        const followers: { readonly after: number; readonly read: ReturnType<typeof follow> }[] = [];
        for (const { parts, ticks, follower } of steps) {
          for (const text of parts) {
            const record = recordOf(text);
            all.push(record);
            await writer.log.append(id, record);
          }
          for (let i = 0; i < ticks; i++) await tick();
          if (follower === null) continue;
          const { log } = others[follower % 2] as TestNode;
          const after = Math.min(follower, all.length);
          followers.push({ after, read: follow(log, id, after) });
          const own = await writer.log.readOwn(id, after);
          expect(own?.records).toEqual(all.slice(after, after + (own?.records.length ?? 0)));
          expect(own?.records.length === 0).toBe(after === all.length);
        }
        await writer.log.end(id, END());
        for (const { after, read } of followers)
          expect(await read).toEqual({ records: all.slice(after), failure: undefined });
        expect(await follow(others[0]?.log as ReplyLog, id, 0)).toEqual({
          records: all,
          failure: undefined,
        });
        expect(writer.failures).toEqual([]);
      }),
      { numRuns: 40 },
    );
  });

  it('begins at once, then takes what has come within 50 ms with one call, and the rest with its end', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const memory = memoryReplies(Date.now);
    const engine = unreliable(memory, () => 0.9);
    const { log, begin } = nodeOf(engine);
    const { id } = await begin();
    const parts = async () => {
      for (let i = 0; i < 4; i++) await tick();
      return (await memory.find(id))?.parts;
    };
    log.append(id, recordOf('1'));
    log.append(id, recordOf('2'));
    expect(await parts()).toBe(2);
    log.append(id, recordOf('3'));
    await vi.advanceTimersByTimeAsync(BATCH_MS - 1);
    log.append(id, recordOf('4'));
    expect(await parts()).toBe(2);
    await vi.advanceTimersByTimeAsync(1);
    expect(await parts()).toBe(4);
    // A part after a silence need not wait.
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    log.append(id, recordOf('5'));
    expect(await parts()).toBe(5);
    log.append(id, recordOf('6'));
    await log.end(id, END());
    expect(await memory.find(id)).toMatchObject({ parts: 6, end: { failure: undefined } });
    expect(engine.calls.append).toBe(4);
  });

  it('takes each part of a durable session at once, as the record of that does', async () => {
    const memory = memoryReplies(Date.now);
    const { log, begin } = nodeOf(memory);
    const { id } = await begin({ source: { session: 'sess_a', stream: 1 } });
    for (let parts = 1; parts <= 5; parts++) {
      log.append(id, recordOf('x'));
      await tick();
      await tick();
      expect((await memory.find(id))?.parts).toBe(parts);
    }
  });

  it('is stopped from another node: its record ends at once, and its writer is told', async () => {
    const memory = memoryReplies(Date.now);
    const [a, b] = [nodeOf(memory), nodeOf(memory, 'bbbbbb')];
    const { id } = await a.begin();
    await a.log.append(id, recordOf('1'));
    await vi.waitFor(async () => expect((await memory.find(id))?.parts).toBe(1));
    const reading = follow(b.log, id, 0);
    await b.log.cancel(id);
    await vi.waitFor(() => expect(a.failures).toHaveLength(1));
    expect(a.failures[0]).toMatchObject({ why: 'stopped', error: { code: 'cancelled' } });
    expect(a.log.append(id, recordOf('2'))).toBeUndefined();
    expect(await reading).toEqual({ records: [recordOf('1')], failure: 'cancelled' });
    // It has ended, so it may be stopped again, and stays as it is.
    await b.log.cancel(id);
    expect(await follow(b.log, id, 0)).toEqual({ records: [recordOf('1')], failure: 'cancelled' });
  });

  it('is stopped at its next part if its writer was not told', async () => {
    const memory = memoryReplies(Date.now);
    const [a, b] = [nodeOf(unreliable(memory, () => 0.9)), nodeOf(memory, 'bbbbbb')];
    const { id } = await a.begin();
    await b.log.cancel(id);
    a.log.append(id, recordOf('1'));
    await vi.waitFor(() => expect(a.failures).toMatchObject([{ why: 'stopped' }]));
    const [c, d] = [await a.begin(), await a.begin()];
    await b.log.cancel(c.id);
    await a.log.end(c.id, END());
    expect(a.failures).toMatchObject([{ why: 'stopped' }, { why: 'stopped', error: { code: 'cancelled' } }]);
    await a.log.end(d.id, END());
    await b.log.cancel(d.id);
    expect((await memory.find(d.id))?.end?.failure).toBeUndefined();
  });

  it('is stopped although another node has just continued it', async () => {
    const memory = memoryReplies(Date.now);
    const a = nodeOf(memory);
    const head = await a.begin();
    const find = memory.find.bind(memory);
    const claiming: ReplyLogs = new Proxy(memory, {
      get: (_, name: keyof ReplyLogs) =>
        name === 'find'
          ? async (id: string) => {
              const entry = await find(id);
              if (entry?.epoch === 0) await memory.claim({ ...head, epoch: 1 }, 'cccccc', 60_000);
              return entry;
            }
          : memory[name].bind(memory),
    });
    await nodeOf(claiming, 'bbbbbb').log.cancel(head.id);
    expect(codeOf((await memory.read(head.id, 0))?.end?.failure)).toBe('cancelled');
  });

  it('takes all parts of a tick with one call, and holds the handler back beyond its window', async () => {
    const memory = memoryReplies(Date.now);
    const engine = unreliable(memory, () => 0.9);
    const { log, begin } = nodeOf(engine);
    const { id } = await begin();
    for (let i = 1; i < MAX_PENDING; i++) expect(log.append(id, recordOf('x'))).toBeUndefined();
    const full = log.append(id, recordOf('x'));
    expect(full).toBeInstanceOf(Promise);
    expect((await memory.find(id))?.parts).toBe(0);
    await full;
    expect((await memory.find(id))?.parts).toBe(MAX_PENDING);
    expect(engine.calls.append).toBe(1);
    expect(log.append(id, new Uint8Array(MAX_PENDING_BYTES - 1))).toBeUndefined();
    expect(log.append(id, new Uint8Array(1))).toBeInstanceOf(Promise);
    await log.end(id, END());
    expect(engine.calls.append).toBe(2);
  });

  it('is ended by another node once the lease of its own is over, and its writer is told', async () => {
    const memory = memoryReplies(Date.now);
    const [a, b] = [nodeOf(memory), nodeOf(memory, 'bbbbbb', { alive: ['bbbbbb'] })];
    const { id } = await a.begin({ name: 'n' });
    await a.log.append(id, recordOf('1'));
    await tick();
    await tick();
    const entries = [];
    for await (const entry of b.log.list('principal:ada')) entries.push(entry);
    expect(entries).toMatchObject([{ id, parts: 1, end: { failure: expect.anything() } }]);
    expect(await b.log.find({ owner: 'principal:ada', name: 'n' })).toMatchObject({ id });
    expect(await follow(b.log, id, 0)).toEqual({ records: [recordOf('1')], failure: 'interrupted' });
    await a.log.append(id, recordOf('2'));
    await vi.waitFor(() => expect(a.failures).toHaveLength(1));
    expect(a.failures[0]).toMatchObject({ why: 'fenced', error: { code: 'interrupted' } });
    // Nothing more is taken, or written.
    expect(a.log.append(id, recordOf('3'))).toBeUndefined();
    await a.log.end(id, END());
    expect(await follow(b.log, id, 0)).toEqual({ records: [recordOf('1')], failure: 'interrupted' });
  });

  it('is not ended while it is unknown whether its node lives, or it lives', async () => {
    const memory = memoryReplies(Date.now);
    const a = nodeOf(memory);
    const { id } = await a.begin();
    const unsure = new ReplyLog({
      engine: memory,
      bounds: BOUNDS,
      incarnation: 'cccccc',
      logger: LOGGER,
      now: Date.now,
      isAlive: () => Promise.reject(new ProtocolError('connection_failed', 'forgotten')),
    });
    open.push(unsure);
    expect((await unsure.find({ id }))?.end).toBeUndefined();
    expect((await nodeOf(memory, 'bbbbbb').log.find({ id }))?.end).toBeUndefined();
    // One that this process does not write any more has no writer.
    expect((await nodeOf(memory, 'aaaaaa').log.find({ id }))?.end).toBeDefined();
  });

  it('is ended if its writer has said nothing for a minute, although its node lives', async () => {
    let now = 0;
    const memory = memoryReplies(() => now);
    const [a, b] = [nodeOf(memory), nodeOf(memory, 'bbbbbb')];
    const { id } = await a.begin();
    now = 59_999;
    expect((await b.log.find({ id }))?.end).toBeUndefined();
    now = 60_000;
    expect((await b.log.find({ id }))?.end).toBeDefined();
  });

  it('that is left ends soon for the followers at other nodes once its requester is not awaited', async () => {
    vi.useFakeTimers();
    const memory = memoryReplies(Date.now);
    let isAwaited = true;
    const a = nodeOf(memory, 'aaaaaa', { isAwaited: async () => isAwaited });
    const b = nodeOf(memory, 'bbbbbb', { isAwaited: async () => isAwaited });
    const { id } = await a.begin({ source: { session: 'sess_1', stream: 1 } });
    let found: unknown;
    void follow(b.log, id, 0).then(({ failure }) => {
      found = failure;
    });
    a.log.leave(id);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(found).toBeUndefined();
    isAwaited = false;
    await vi.advanceTimersByTimeAsync(2_100);
    expect(found).toBe('interrupted');
  });

  it('that is left ends also if another one that was left before it was changed in the engine', async () => {
    vi.useFakeTimers();
    const memory = memoryReplies(Date.now);
    const changed = new Set<string>();
    const find = async (id: string) => {
      if (changed.has(id)) throw new ProtocolError('authentication_failed', 'changed');
      return await memory.find(id);
    };
    const engine: ReplyLogs = new Proxy(memory, {
      get: (target, name) => {
        const member: unknown = name === 'find' ? find : Reflect.get(target, name, target);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
    const a = nodeOf(engine);
    const [first, second] = [await a.begin(), await a.begin()];
    changed.add(first.id);
    for (const { id } of [first, second]) a.log.leave(id);
    await vi.advanceTimersByTimeAsync(2_100);
    expect((await memory.find(second.id))?.end?.failure).toBeDefined();
  });

  it('that is left is not ended by its former writer once another node writes it', async () => {
    vi.useFakeTimers();
    const memory = memoryReplies(Date.now);
    const [a, b] = [nodeOf(memory), nodeOf(memory, 'bbbbbb')];
    const { id } = await a.begin();
    a.log.leave(id);
    const going = { epoch: 1, after: 0, onFailed: () => {}, isWanted: () => true };
    expect((await b.log.goOn(id, going)).outcome).toBe('done');
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await memory.find(id))?.end).toBeUndefined();
  });

  it('says that it is followed elsewhere, and is kept while its handler is silent', async () => {
    vi.useFakeTimers();
    const memory = memoryReplies(Date.now);
    const [a, b] = [nodeOf(memory), nodeOf(memory, 'bbbbbb')];
    const { id } = await a.begin({ ttlMs: 1_000 });
    expect(await a.log.isFollowed(id)).toBe(false);
    const stop = b.log.watch(id, () => {});
    await vi.advanceTimersByTimeAsync(2_100);
    expect(await a.log.isFollowed(id)).toBe(true);
    stop();
    await vi.advanceTimersByTimeAsync(6_000);
    expect(await a.log.isFollowed(id)).toBe(false);
    await vi.advanceTimersByTimeAsync(600_000);
    expect((await b.log.find({ id }))?.end).toBeUndefined();
    expect(a.failures).toEqual([]);
  });

  it('is found to have ended also if that is never published', async () => {
    vi.useFakeTimers();
    const memory = memoryReplies(Date.now);
    const deaf: ReplyLogs = Object.assign(Object.create(memory), {
      watch: () => () => {},
      read: (id: string, after: number) => memory.read(id, after),
      follow: (id: string) => memory.follow(id),
      find: (id: string) => memory.find(id),
      end: memory.end.bind(memory),
      close: async () => {},
    });
    const [a, b] = [nodeOf(memory), nodeOf(deaf, 'bbbbbb')];
    const { id } = await a.begin();
    const reading = follow(b.log, id, 0);
    a.log.append(id, recordOf('1'));
    await vi.advanceTimersByTimeAsync(2_100);
    await a.log.end(id, END());
    await vi.advanceTimersByTimeAsync(2_100);
    expect(await reading).toEqual({ records: [recordOf('1')], failure: undefined });
  });

  it('has as many parts as there is room for, then the error of the bound', async () => {
    const parts = Array.from({ length: 40 }, (_, i) => recordOf(`part ${i}`));
    const memory = memoryReplies(Date.now);
    const probe = await nodeOf(memory).begin();
    const room = batchCharge({ records: parts.slice(0, 33), metadata: [] });
    const bounds = { ...BOUNDS, maxReplyBytes: headCharge(probe) + room };
    const { log, begin, failures } = nodeOf(memory, 'aaaaaa', { bounds });
    const { id } = await begin();
    for (const part of parts) log.append(id, part);
    await vi.waitFor(() => expect(failures).toHaveLength(1));
    expect(failures[0]).toMatchObject({ why: 'full', error: { code: 'reply_too_large' } });
    expect(await follow(nodeOf(memory, 'bbbbbb').log, id, 0)).toEqual({
      records: parts.slice(0, 33),
      failure: 'reply_too_large',
    });
  });

  it('is refused with a typed error if its owner has too many, or this node no memory', async () => {
    const memory = memoryReplies(Date.now);
    const { begin } = nodeOf(memory, 'aaaaaa', { bounds: { ...BOUNDS, maxReplies: 1 } });
    await begin();
    await expect(begin()).rejects.toMatchObject({ code: 'too_many_replies' });
    await begin({ owner: 'principal:bob' });
    const small = nodeOf(memory, 'aaaaaa', { bounds: { ...BOUNDS, maxBytes: 64 * 1024 - 1 } });
    await expect(small.begin()).rejects.toMatchObject({ code: 'over_budget' });
    await nodeOf(memory, 'aaaaaa', { bounds: { ...BOUNDS, maxBytes: 64 * 1024 } }).begin();
  });

  it('is no longer kept if the engine does not answer for too long, and ends there when it does', async () => {
    const memory: ReplyLogs = memoryReplies(Date.now);
    let isAway = false;
    const away: ReplyLogs = Object.assign(Object.create(memory), {
      open: memory.open.bind(memory),
      listen: memory.listen.bind(memory),
      append: async (...call: Parameters<ReplyLogs['append']>) => {
        if (isAway) throw new ProtocolError('timeout', 'away');
        return await memory.append(...call);
      },
      end: async (...call: Parameters<ReplyLogs['end']>) => {
        if (isAway) throw new ProtocolError('timeout', 'away');
        return await memory.end(...call);
      },
      close: async () => {},
    });
    const { log, begin, failures } = nodeOf(away, 'aaaaaa', { stallMs: 50 });
    const { id } = await begin();
    await log.append(id, recordOf('1'));
    await vi.waitFor(async () => expect((await memory.find(id))?.parts).toBe(1));
    isAway = true;
    let waiting: Promise<void> | undefined;
    for (let i = 0; i < MAX_PENDING; i++) waiting = log.append(id, recordOf('x'));
    // The handler is let go, and its requester has all of them.
    await waiting;
    expect(failures).toMatchObject([{ why: 'full', error: { code: 'timeout', retryable: true } }]);
    expect((await log.readOwn(id, 0))?.records).toHaveLength(MAX_PENDING + 1);
    isAway = false;
    expect(await follow(nodeOf(memory, 'bbbbbb').log, id, 0)).toEqual({
      records: [recordOf('1')],
      failure: 'timeout',
    });
  });
});
