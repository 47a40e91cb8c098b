import { describe, expect, it } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import { type Have, MAX_HELD_STREAMS } from './messages.js';
import { haveFields, readHave, readKept } from './rebuilt.js';

const HAVE: Have = {
  ...{ messages: 7, sent: 3, written: 5, opened: 9, heard: 4 },
  streams: [
    { id: 3, parts: 2, isAcknowledged: true, isCancelled: false },
    { id: 9, parts: 0, isAcknowledged: false, isCancelled: true },
  ],
};

const parsed = (changes: object) => readHave({ ...haveFields(HAVE), ...changes });

describe('the state of the client of a durable session', () => {
  it('is read as it was written', () => {
    expect(haveFields(HAVE)['streams']).toEqual([3, 2, 1, 9, 0, 2]);
    expect(readHave(haveFields(HAVE))).toEqual(HAVE);
  });

  it.each([
    ['messages that were not counted', { messages: -1 }],
    ['no count', { sent: undefined }],
    ['more acknowledged than written', { sent: 6 }],
    ['a stream of the server as its own', { opened: 10 }],
    ['its own stream as that of the server', { heard: 5 }],
    ['a list that is cut', { streams: [3, 2] }],
    ['a stream of the server', { streams: [4, 0, 0] }],
    ['a stream twice', { streams: [3, 0, 0, 3, 0, 0] }],
    ['a stream that was not opened', { streams: [11, 0, 0] }],
    ['half a part', { streams: [3, 0.5, 0] }],
    ['something else than a list', { streams: {} }],
  ])('is refused with %s', (_, changes) => {
    expect(errorCode(() => parsed(changes))).toBe('bad_message');
  });

  it('has a bound', () => {
    const streams = (count: number) => Array.from({ length: count }, (_, i) => [2 * i + 1, 0, 0]).flat();
    const opened = 2 * MAX_HELD_STREAMS + 1;
    expect(parsed({ opened, streams: streams(MAX_HELD_STREAMS) })?.streams).toHaveLength(MAX_HELD_STREAMS);
    expect(errorCode(() => parsed({ opened, streams: streams(MAX_HELD_STREAMS + 1) }))).toBe('bad_message');
  });
});

describe('the state of the server of a durable session', () => {
  const answer = (kept: object) => readKept({ ...kept });

  it('is read as it was written', () => {
    expect(answer({ handled: 4, again: [3, 7] })).toEqual({ handled: 4, again: [3, 7] });
  });

  it.each([
    ['no count', { again: [] }],
    ['no list', { handled: 1 }],
    ['a stream of the server', { handled: 1, again: [2] }],
    ['more streams than a client may list', { handled: 1, again: new Array(MAX_HELD_STREAMS + 1).fill(1) }],
  ])('is refused with %s', (_, kept) => {
    expect(errorCode(() => answer(kept))).toBe('bad_message');
  });
});
