import type { Logger } from '@parlance/protocol';
import { ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../protocol/src/testing/manual-clock.js';
import type { CapacityRequest, NeedsCapacity, SessionWrite, SessionWritten } from '../engine/engine.js';
import { CAPACITY_STEP, Capacity } from './capacity.js';
import { CommitRecorder, type CommitRecorderOptions, STALL_MS } from './commit-recorder.js';
import { FakeSession } from './testing/fake-session.js';

function setUp(rest: Partial<CommitRecorderOptions> = {}) {
  const clock = new ManualClock();
  const durable = new FakeSession();
  const writes: SessionWrite[] = [];
  const waiting: { resolve(answer: SessionWritten | NeedsCapacity): void; reject(error: Error): void }[] = [];
  const events: string[] = [];
  const note = (fields: Readonly<Record<string, unknown>>) => void events.push(String(fields['event']));
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  const recorder = new CommitRecorder({
    ...{ sessionId: 'sess_one', principal: undefined, owner: 'aaaaaa', epoch: 2, ttlMs: 60_000 },
    ...{ durable, clock, logger },
    link: {
      writeSession: (_id, write) => {
        writes.push(write);
        return new Promise((resolve, reject) => void waiting.push({ resolve, reject }));
      },
    },
    onCommitted: () => void events.push('recorded'),
    onRefused: (why) => void events.push(why),
    ...rest,
  });
  /** Lets what has been answered be handled. */
  const tick = async () => {
    for (let i = 0; i < 10; i++) await Promise.resolve();
  };
  const answer = async (outcome: SessionWritten | NeedsCapacity | Error) => {
    const write = waiting.shift();
    if (outcome instanceof Error) write?.reject(outcome);
    else write?.resolve(outcome);
    await tick();
  };
  return { clock, durable, writes, events, recorder, tick, answer };
}

const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const LOST = new ProtocolError('timeout', 'no answer');

describe('the recorder of commits', () => {
  it('writes what happens in one tick of the loop together, with its owner and epoch', async () => {
    const { durable, writes, tick } = setUp();
    durable.handle();
    durable.handle();
    expect(writes).toEqual([]);
    await tick();
    expect(writes).toMatchObject([
      {
        owner: 'aaaaaa',
        epoch: 2,
        number: 1,
        isFirst: false,
        set: new Map([['handled', new Uint8Array(Buffer.from('2'))]]),
      },
    ]);
  });

  it('writes one commit at a time, and then what has happened meanwhile', async () => {
    const { durable, writes, events, tick, answer } = setUp();
    durable.handle();
    await tick();
    durable.handle();
    await tick();
    expect(writes).toHaveLength(1);
    await answer('written');
    expect(events).toEqual(['recorded']);
    expect(durable.recorded).toBe(1);
    expect(writes.map(({ number }) => number)).toEqual([1, 2]);
  });

  it('writes the same commit again until it is answered', async () => {
    const { clock, durable, writes, events, tick, answer } = setUp();
    durable.handle();
    await tick();
    await answer(LOST);
    durable.handle();
    clock.pass(24);
    expect(writes).toHaveLength(1);
    clock.pass(1);
    await answer(LOST);
    clock.pass(50);
    expect(writes).toHaveLength(3);
    expect(new Set(writes.map((write) => JSON.stringify([write.number, [...write.set]])))).toHaveLength(1);
    expect(events).toEqual([]);
    await answer('written');
    expect(events).toEqual(['recorded']);
    expect(writes.at(-1)?.number).toBe(2);
  });

  it('writes nothing again once it is closed, and says when what was sent is answered', async () => {
    const { durable, writes, events, recorder, tick, answer } = setUp();
    durable.handle();
    await tick();
    recorder.close();
    let isSettled = false;
    void recorder.settled.then(() => {
      isSettled = true;
    });
    await tick();
    expect(isSettled).toBe(false);
    // Its record was released meanwhile.
    await answer('gone');
    expect([writes.length, isSettled, ...events]).toEqual([1, true]);
  });

  it.each(['fenced', 'gone'] as const)(
    'writes nothing more if the answer is %s, also to everything that it has',
    async (refusal) => {
      const { durable, writes, events, recorder, tick, answer } = setUp();
      durable.handle();
      await tick();
      await answer(refusal);
      expect(writes[1]).toMatchObject({ number: 1, replaces: true, set: writes[0]?.set });
      expect(events).toEqual([]);
      await answer(refusal);
      durable.handle();
      recorder.tidy();
      await tick();
      expect(events).toEqual([refusal]);
      expect([writes.length, durable.recorded]).toEqual([2, 0]);
    },
  );

  it('writes nothing again when it is closed', async () => {
    const { clock, durable, writes, events, recorder, tick, answer } = setUp();
    durable.handle();
    await tick();
    await answer(LOST);
    recorder.close();
    clock.pass(10_000);
    expect(writes).toHaveLength(1);
    expect(events).toEqual([]);
  });

  it('ignores an answer that comes after it was closed', async () => {
    const { durable, events, recorder, tick, answer } = setUp();
    durable.handle();
    await tick();
    recorder.close();
    await answer('written');
    expect([events, durable.recorded]).toEqual([[], 0]);
  });

  it('says once that the engine does not answer, and that it does again', async () => {
    const { clock, durable, events, tick, answer } = setUp();
    durable.handle();
    await tick();
    clock.pass(STALL_MS - 1);
    await answer(LOST);
    expect(events).toEqual([]);
    for (let i = 0; i < 3; i++) {
      clock.pass(1_000);
      await answer(LOST);
    }
    expect(events).toEqual(['engine.stalled']);
    clock.pass(1_000);
    await answer('written');
    expect(events).toEqual(['engine.stalled', 'engine.answered', 'recorded']);
  });

  it('writes what is not needed any more when it is asked to', async () => {
    const { durable, writes, recorder, tick } = setUp();
    durable.hasLazy = true;
    await tick();
    expect(writes).toEqual([]);
    recorder.tidy();
    expect(writes).toHaveLength(1);
  });

  it.each(['fenced', 'gone', 'behind'] as const)(
    'writes everything if the engine has forgotten something: %s',
    async (found) => {
      const { durable, writes, events, tick, answer } = setUp({
        fields: new Map([['begin', bytes('b')]]),
      });
      durable.state = bytes('1');
      durable.handle();
      await tick();
      await answer('written');
      durable.handle();
      await tick();
      expect(writes[1]).toMatchObject({ after: 1, number: 2 });
      await answer(found);
      expect(writes[2]).toMatchObject({ number: 2, replaces: true, remove: [] });
      const all = [...(writes[2]?.set ?? [])].map(([name, value]) => [name, Buffer.from(value).toString()]);
      expect(all).toEqual([
        ['begin', 'b'],
        ['handled', '2'],
        ['state', '1'],
      ]);
      await answer('written');
      expect(events).toEqual(['recorded', 'record.behind', 'recorded']);
    },
  );

  it('asks for a replica if it is told so', async () => {
    const { durable, writes, tick } = setUp({ isReplicated: true });
    durable.handle();
    await tick();
    expect(writes[0]).toMatchObject({ isReplicated: true });
  });
});

describe('the recorder of commits with an engine that is unavailable', () => {
  const stalled = async (rest: Partial<CommitRecorderOptions>) => {
    const set = setUp({ stallMs: 1_000, ...rest });
    const { clock, durable, tick, answer } = set;
    durable.handle();
    await tick();
    clock.pass(999);
    await answer(LOST);
    clock.pass(25);
    expect(durable.recorded).toBe(0);
    return set;
  };

  it('waits, unless it may continue', async () => {
    const { clock, durable, events, answer } = await stalled({});
    await answer(LOST);
    clock.pass(60_000);
    expect([durable.recorded, events]).toEqual([0, ['engine.stalled']]);
  });

  it('continues, and writes what has happened in one commit when it answers', async () => {
    const { clock, durable, writes, events, tick, answer } = await stalled({ degrades: true });
    await answer(LOST);
    expect(events).toEqual(['engine.stalled', 'session.degraded', 'recorded']);
    expect(durable.recorded).toBe(1);
    for (let i = 2; i <= 4; i++) {
      durable.handle();
      await tick();
      expect(durable.recorded).toBe(i);
    }
    events.length = 0;
    clock.pass(1_000);
    await answer(LOST);
    // More happens while it is written.
    clock.pass(1_000);
    durable.handle();
    await tick();
    await answer('written');
    expect(writes.slice(-2).map(({ number }) => number)).toEqual([4, 5]);
    expect(Buffer.from(writes.at(-1)?.set.get('handled') ?? []).toString()).toBe('5');
    await answer('written');
    expect(events).toEqual(['recorded', 'engine.answered']);
    durable.handle();
    await tick();
    expect([writes.at(-1)?.number, durable.recorded]).toEqual([6, 5]);
    await answer('written');
    expect(durable.recorded).toBe(6);
  });

  it('never continues with a change of who may resume the session before that is recorded', async () => {
    const { clock, durable, events, tick, answer } = await stalled({ degrades: true });
    await answer(LOST);
    durable.accept = { tokens: ['a'], attempt: 1 };
    durable.handle();
    await tick();
    durable.handle();
    await tick();
    expect(durable.recorded).toBe(1);
    clock.pass(1_000);
    await answer('written');
    expect(durable.recorded).toBe(2);
    await tick();
    await answer('written');
    expect(durable.recorded).toBe(3);
    expect(events).not.toContain('fenced');
  });

  it('waits if the commit that it does not take says who may resume the session', async () => {
    const set = setUp({ stallMs: 1_000, degrades: true });
    set.durable.accept = { tokens: ['a'], attempt: 1 };
    set.durable.handle();
    await set.tick();
    set.clock.pass(5_000);
    await set.answer(LOST);
    expect([set.durable.recorded, set.events]).toEqual([0, ['engine.stalled']]);
  });

  it('ends if another node has the session when it answers', async () => {
    const { clock, events, writes, durable, tick, answer } = await stalled({ degrades: true });
    await answer(LOST);
    clock.pass(1_000);
    await answer('fenced');
    await answer('fenced');
    expect(events.at(-1)).toBe('fenced');
    durable.handle();
    await tick();
    expect(writes).toHaveLength(4);
  });
});

describe('the recorder of commits of a session with bounds', () => {
  function bounded(maxSessionBytes: number, maxPrincipalBytes = Infinity) {
    const requests: number[] = [];
    const released: string[] = [];
    const link = {
      async reserveCapacity(_account: string, _sessionId: string, { bytes, maxBytes }: CapacityRequest) {
        requests.push(bytes);
        return bytes <= maxBytes ? bytes : undefined;
      },
      async releaseCapacity(account: string) {
        released.push(account);
      },
    };
    const options = { link, sessionId: 'sess_one', account: 'ada', ttlMs: 60_000 };
    const capacity = new Capacity({ ...options, maxSessionBytes, maxPrincipalBytes });
    return { ...setUp({ capacity }), capacity, requests, released };
  }

  it('reserves in steps, before it writes more', async () => {
    const { durable, writes, events, recorder, tick, answer, requests, capacity, released } = bounded(
      3 * CAPACITY_STEP,
    );
    durable.handle();
    await tick();
    expect(requests).toEqual([CAPACITY_STEP]);
    expect(writes[0]).toMatchObject({ maxBytes: CAPACITY_STEP });
    await answer({ needed: CAPACITY_STEP + 1 });
    expect(writes[1]).toMatchObject({ number: 1, maxBytes: 2 * CAPACITY_STEP });
    await answer('written');
    recorder.tidy();
    await tick();
    expect(requests).toEqual([CAPACITY_STEP, 2 * CAPACITY_STEP, 2 * CAPACITY_STEP]);
    await capacity.release();
    expect([released, events]).toEqual([['ada'], ['recorded']]);
  });

  it.each([
    ['session', 2 * CAPACITY_STEP, Infinity],
    ['principal', Infinity, 2 * CAPACITY_STEP],
  ])('is full exactly beyond what the %s may have', async (_, session, principal) => {
    const { durable, writes, events, tick, answer } = bounded(session, principal);
    durable.handle();
    await tick();
    await answer({ needed: 2 * CAPACITY_STEP });
    expect(writes[1]).toMatchObject({ maxBytes: 2 * CAPACITY_STEP });
    await answer({ needed: 2 * CAPACITY_STEP + 1 });
    expect([writes.length, events]).toEqual([2, ['full']]);
  });

  it('is full at once if its principal has no room for it', async () => {
    const { durable, writes, events, tick } = bounded(Infinity, CAPACITY_STEP - 1);
    durable.handle();
    await tick();
    expect([writes, events]).toEqual([[], ['full']]);
  });

  it('has a bound of its own without a principal', async () => {
    const link = {
      reserveCapacity: () => Promise.reject(new Error('asked')),
      releaseCapacity: async () => {},
    };
    const options = { link, sessionId: 'sess_one', account: undefined, ttlMs: 60_000, maxPrincipalBytes: 1 };
    const capacity = new Capacity({ ...options, maxSessionBytes: CAPACITY_STEP + 1 });
    expect([await capacity.grow(1), capacity.bytes]).toEqual([true, CAPACITY_STEP]);
    expect([await capacity.grow(CAPACITY_STEP + 1), capacity.bytes]).toEqual([true, CAPACITY_STEP + 1]);
    expect(await capacity.grow(CAPACITY_STEP + 2)).toBe(false);
    await capacity.release();
  });
});
