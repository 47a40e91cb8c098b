import { ProtocolError } from '@parlance/protocol';
import { encodeFailure, newReplyId } from '@parlance/protocol/internal';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { EngineHead, ReplyLogs } from '../engine/logs/logs.js';
import { memoryReplies } from '../engine/logs/memory.js';
import { ReplyLog } from './log.js';

/** A node that continues replies of others, and an engine whose answers come in an order of their own. */

const BOUNDS = { maxReplies: 100, maxReplyBytes: 4 << 20, maxOwnerBytes: 32 << 20, maxBytes: 256 << 20 };
const LOGGER = { debug() {}, info() {}, warn() {}, error() {} };
const away = () => new ProtocolError('timeout', 'away');

const open: ReplyLog[] = [];
afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(open.splice(0).map((log) => log.close()));
});

/** The engine, with calls of which the test decides what becomes. */
function around(memory: ReplyLogs, calls: Partial<ReplyLogs>): ReplyLogs {
  const get = (_: object, name: keyof ReplyLogs) => calls[name] ?? memory[name].bind(memory);
  return new Proxy({} as ReplyLogs, { get: get as never });
}

function logOf(engine: ReplyLogs, incarnation: string): ReplyLog {
  const options = { engine, bounds: BOUNDS, incarnation, logger: LOGGER, now: Date.now, retryMs: 5 };
  const log = new ReplyLog({ ...options, isAlive: async () => true });
  open.push(log);
  return log;
}

const headOf = (): EngineHead => ({
  ...{
    id: newReplyId('aaaaaa'),
    owner: 'principal:ada',
    principal: 'ada',
    name: undefined,
    share: undefined,
  },
  ...{ encoding: undefined, ttlMs: 60_000, startedAt: 0, by: 'aaaaaa', epoch: 0 },
});
const RECORDS = ['a', 'b', 'c'].map((text) => Uint8Array.from([0, text.charCodeAt(0)]));
const END = { at: 0, failure: undefined, metadata: undefined };

/** A reply of three parts that a node has left. */
async function left(memory: ReplyLogs): Promise<EngineHead> {
  const head = headOf();
  await memory.open(head, BOUNDS, 60_000);
  await memory.append({ ...head, from: 0, offset: 0, records: RECORDS, metadata: [] }, BOUNDS, 60_000);
  return head;
}

const going = (after: number, isWanted = () => false) => ({
  ...{ epoch: 1, after, onFailed: () => {}, isWanted },
});

describe('a node that continues a reply', () => {
  it('learns the parts that others may have, also if the log takes no more', async () => {
    const failure = encodeFailure(away());
    for (const why of [undefined, 'given_up'] as const) {
      const memory = memoryReplies(Date.now);
      const head = await left(memory);
      if (why !== undefined)
        await memory.end({ ...head, parts: undefined, by: 'aaaaaa', end: { ...END, failure }, why }, BOUNDS);
      for (const after of [0, 2, 3, 5]) {
        const gone = await logOf(memory, 'bbbbbb').goOn(head.id, going(after));
        expect(gone).toMatchObject({ outcome: why ?? 'done', rest: RECORDS.slice(after) });
      }
    }
  });

  it('reads the recorded parts of one that it wrote itself, and not those that it still has in memory', async () => {
    const memory = memoryReplies(Date.now);
    let isFull = false;
    const append: ReplyLogs['append'] = async (...args) =>
      isFull ? 'over_budget' : await memory.append(...args);
    const log = logOf(around(memory, { append }), 'aaaaaa');
    const head = headOf();
    const [first, second] = RECORDS as [Uint8Array, Uint8Array];
    await log.open(head);
    void log.append(head.id, first);
    await expect.poll(async () => (await memory.find(head.id))?.parts).toBe(1);
    isFull = true;
    void log.append(head.id, second);
    await expect.poll(async () => (await memory.find(head.id))?.end).toBeDefined();
    // The requester of the former session still got it.
    expect((await log.readOwn(head.id, 1))?.records).toEqual([second]);
    const gone = await log.goOn(head.id, going(0));
    expect(gone).toMatchObject({ outcome: 'given_up', rest: [first] });
    expect((await log.readOwn(head.id, 1))?.records).toEqual([]);
  });

  it('keeps the writer of a later claim if an earlier one is answered after it', async () => {
    const memory = memoryReplies(Date.now);
    const { id } = await left(memory);
    let answer = (): void => {};
    const late = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let claims = 0;
    const claim: ReplyLogs['claim'] = async (...args) => {
      if (claims++ === 0) await late;
      return await memory.claim(...args);
    };
    const log = logOf(around(memory, { claim }), 'bbbbbb');
    const earlier = log.goOn(id, going(3));
    expect(await log.goOn(id, { ...going(3), epoch: 2 })).toMatchObject({ outcome: 'done' });
    answer();
    expect(await earlier).toEqual({ outcome: 'ended' });
    const record = Uint8Array.from([0, 100]);
    await log.append(id, record);
    await expect.poll(async () => (await memory.read(id, 3))?.records).toEqual([record]);
  });

  it('waits for an engine that does not answer for as long as the reply is wanted', async () => {
    for (const call of ['find', 'claim', 'read'] as const) {
      vi.useFakeTimers();
      const memory = memoryReplies(Date.now);
      const { id } = await left(memory);
      let isAway = true;
      const engine = around(memory, {
        [call]: async (...args: never[]) => {
          if (isAway) throw away();
          return await (memory[call] as (...args: never[]) => unknown).apply(memory, args);
        },
      });
      const log = logOf(engine, 'bbbbbb');
      let isWanted = true;
      const outcomes: unknown[] = [];
      const goOn = () =>
        log
          .goOn(
            id,
            going(1, () => isWanted),
          )
          .then(
            ({ outcome }) => outcomes.push(outcome),
            ({ code }: ProtocolError) => outcomes.push(code),
          );
      void goOn();
      await vi.advanceTimersByTimeAsync(20_000);
      expect(outcomes).toEqual([]);
      isWanted = false;
      await vi.advanceTimersByTimeAsync(10);
      // Nothing here seems to write it, so that others end it.
      expect([outcomes, log.usage.replies]).toEqual([['timeout'], 0]);
      isAway = false;
      await goOn();
      expect(outcomes).toEqual(['timeout', 'done']);
      await log.end(id, END);
      vi.useRealTimers();
    }
  });
});

describe('a node that says that it still writes a reply', () => {
  it('makes nothing of an answer that has met the end on the way', async () => {
    const memory = memoryReplies(Date.now);
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const engine = around(memory, {
      end: async (...args) => {
        const outcome = await memory.end(...args);
        await answered;
        return outcome;
      },
    });
    const log = logOf(engine, 'aaaaaa');
    const failures: unknown[] = [];
    const head = headOf();
    await log.open(head, (error) => failures.push(error));
    const ended = log.end(head.id, END);
    await vi.waitFor(async () => expect((await memory.find(head.id))?.end).toBeDefined());
    await log.isFollowed(head.id);
    answer();
    await ended;
    expect(failures).toEqual([]);
  });

  it('does not ask for it before it is there', async () => {
    const memory = memoryReplies(Date.now);
    let isAway = true;
    const engine = around(memory, {
      open: async (...args) => {
        if (isAway) throw away();
        return await memory.open(...args);
      },
    });
    const log = logOf(engine, 'aaaaaa');
    const failures: unknown[] = [];
    const head = headOf();
    const opened = log.open(head, (error) => failures.push(error));
    await log.isFollowed(head.id);
    isAway = false;
    await opened;
    expect(failures).toEqual([]);
    await log.append(head.id, RECORDS[0] as Uint8Array);
    await log.end(head.id, END);
    expect((await memory.find(head.id))?.parts).toBe(1);
  });
});
