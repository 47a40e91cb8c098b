import { BodyCodec, type CodedBody, type Logger, ProtocolError } from '@parlance/protocol';
import { decodeFailure } from '@parlance/protocol/internal';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ReplyEnd } from '../engine/logs/reply.js';
import type { ReplyLog } from './log.js';
import { Recording } from './recording.js';

/** A recording over a log that fails, at once or later. */

const body = (fill: number): CodedBody => ({
  codec: BodyCodec.PLAIN,
  bytes: Uint8Array.of(fill),
  originalLength: 1,
  secret: false,
  metadata: undefined,
});
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

const rejections: unknown[] = [];
const note = (reason: unknown) => rejections.push(reason);
beforeEach(() => {
  rejections.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(async () => {
  await settle();
  process.off('unhandledRejection', note);
  expect(rejections).toEqual([]);
});

type Fault = 'open' | 'append' | 'end' | 'drop';

function begin(
  faults: readonly Fault[],
  isLate: boolean,
  error: unknown = new Error('the engine is gone'),
  rest: { readonly parts?: number } = {},
) {
  const unkept: unknown[] = [];
  const left: string[] = [];
  const appended: number[] = [];
  const ends: ReplyEnd[] = [];
  const events: unknown[] = [];
  let [over, now] = [0, 0];
  const answer = (fault: Fault, task: () => void): Promise<void> | undefined => {
    if (!isLate) {
      if (faults.includes(fault)) throw error;
      return void task();
    }
    return settle().then(() => {
      if (faults.includes(fault)) throw error;
      task();
    });
  };
  const log = {
    append: (_id: string, record: Uint8Array) => answer('append', () => appended.push(record[1] as number)),
    end: (_id: string, end: ReplyEnd) => answer('end', () => ends.push(end)),
    leave: (id: string) => void left.push(id),
    drop: () => answer('drop', () => {}),
    isFollowed: async () => false,
  } as unknown as ReplyLog;
  const warn = ({ event }: { readonly event?: unknown }) => events.push(event);
  const stops: ProtocolError[] = [];
  const request = { isWanted: () => wanted.value, stop: (reason: ProtocolError) => stops.push(reason) };
  const wanted = { value: true };
  const recording = new Recording({
    id: 'reply_a',
    request: request as never,
    abandonAfterMs: 100,
    log,
    logger: { debug() {}, info() {}, error() {}, warn } as unknown as Logger,
    now: () => now,
    date: () => now,
    opened: isLate ? answer('open', () => {}) : undefined,
    read: async function* () {},
    onUnkept: (why) => unkept.push(why),
    onOver: () => over++,
    ...rest,
  });
  return {
    recording,
    appended,
    ends,
    events,
    unkept,
    left,
    stops,
    wanted,
    get over() {
      return over;
    },
    pass: (ms: number) => {
      now += ms;
    },
  };
}

const codeOf = (failure: Uint8Array | undefined) => failure && decodeFailure(failure, 8).code;

describe.each([
  ['at once', false],
  ['later', true],
])('a recording whose log answers %s', (_when, isLate) => {
  it('keeps the order of parts and the end, and is over once', async () => {
    const { recording, appended, ends, ...rest } = begin([], isLate);
    const sent = [1, 2, 3].map((fill) => recording.append(body(fill)));
    recording.setMetadata(Uint8Array.of(9));
    const ended = recording.end();
    await Promise.all([...sent, ended]);
    await recording.end(new Error('late'));
    expect(recording.append(body(4))).toBeUndefined();
    await settle();
    expect([appended, recording.parts]).toEqual([[1, 2, 3], 3]);
    expect(ends).toEqual([{ at: 0, failure: undefined, metadata: Uint8Array.of(9) }]);
    expect(rest.events).toEqual([]);
  });

  it('ends with the error of a part that the log refuses, without a rejection, and says so once', async () => {
    const refusal = new ProtocolError('reply_too_large', 'full');
    const begun = begin(['append'], isLate, refusal);
    const { recording, ends, events } = begun;
    const sent = [1, 2, 3].map((fill) => recording.append(body(fill)));
    await Promise.all([...sent, recording.end()]);
    await settle();
    expect([recording.isFull, recording.parts, begun.over]).toEqual([true, 0, 1]);
    expect(ends.map(({ failure }) => codeOf(failure))).toEqual(['reply_too_large']);
    expect(events).toEqual(['reply.full']);
  });

  it('says that its end is not recorded, and does not reject', async () => {
    const begun = begin(['end'], isLate);
    await begun.recording.append(body(1));
    await begun.recording.end();
    await settle();
    expect(begun.events).toEqual(['reply.full', 'reply.unended']);
    expect(begun.over).toBe(1);
  });

  it('says that it cannot be discarded, and does not reject', async () => {
    const begun = begin(['drop'], isLate);
    begun.recording.discard();
    await settle();
    await settle();
    expect(begun.events).toEqual(['reply.unended']);
    expect(begun.over).toBe(1);
  });

  it('stops its handler when it has had no reader for long enough', async () => {
    const begun = begin([], isLate);
    const { recording, stops, wanted } = begun;
    begun.pass(1_000);
    recording.checkRead();
    wanted.value = false;
    begun.pass(99);
    recording.checkRead();
    recording.followers = 1;
    begun.pass(99);
    recording.checkRead();
    recording.followers = 0;
    begun.pass(99);
    recording.checkRead();
    await settle();
    expect(stops).toEqual([]);
    begun.pass(1);
    recording.checkRead();
    await settle();
    expect(stops).toEqual([expect.objectContaining({ code: 'cancelled' })]);
    await settle();
    await settle();
    expect(begun.over).toBe(1);
  });
});

it('a recording that the log does not begin is not kept, and its handler continues', async () => {
  const refusal = new ProtocolError('too_many_replies', 'full');
  const begun = begin(['open'], true, refusal);
  await begun.recording.append(body(1));
  expect([begun.recording.isFull, begun.recording.parts, begun.over]).toEqual([true, 0, 1]);
  await begun.recording.end(refusal);
  expect([begun.unkept, begun.events, begun.ends]).toEqual([[refusal], [], []]);
});

it('a recording that another node continues ends without an end, and stops its handler', async () => {
  const begun = begin([], false);
  void begun.recording.append(body(1));
  const reason = new ProtocolError('interrupted', 'another node continues');
  begun.recording.leave(reason);
  void begun.recording.append(body(2));
  await begun.recording.end(reason);
  expect([begun.appended, begun.ends, begun.left, begun.over]).toEqual([[1], [], ['reply_a'], 1]);
  expect(begun.stops).toEqual([reason]);
});

it('a recording that continues another one counts the parts of that', async () => {
  const begun = begin([], false, undefined, { parts: 7 });
  void begun.recording.append(body(1));
  expect([begun.recording.parts, begun.appended]).toEqual([8, [1]]);
});
