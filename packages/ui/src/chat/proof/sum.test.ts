import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeEventPart, eventTextOf } from '../../../../protocol/src/endpoint/http/events.js';
import { NO_READING, type Reading, readReading, readWritten, verdictOf } from './reading.js';
import { chunkOf, nextSum } from './sum.js';

const bytes = (text: string) => new TextEncoder().encode(text);
const [A, B] = ['a'.repeat(64), 'b'.repeat(64)];

describe('the sum of an answer', () => {
  it('is of the chunks that a handler yields for events, with data of all kinds', () => {
    const data = fc.oneof(
      fc.string(),
      fc.constantFrom('', 'data: x', '{"a":1}\n:', 'one\ntwo', 'id: 1', '\n'),
    );
    fc.assert(
      fc.property(data, (text) => {
        // A line end of another kind ends a line of an event, too.
        const chunk = encodeEventPart({ data: text.replaceAll('\r', '') });
        expect(chunkOf(bytes(eventTextOf(chunk)))).toEqual(bytes(chunk));
      }),
    );
    expect(chunkOf(bytes('not an event'))).toEqual(bytes('not an event\n:'));
    expect(chunkOf(bytes(':\n\n'))).toBeUndefined();
  });

  it('depends on each chunk, its bounds and its place, and continues from what is stored', () => {
    const sumOf = (...chunks: string[]) => chunks.reduce((sum, chunk) => nextSum(sum, bytes(chunk)), '');
    // echo -n one | sha256sum
    expect(sumOf('one')).toBe('7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed');
    expect(
      new Set([sumOf('ab', 'c'), sumOf('a', 'bc'), sumOf('c', 'ab'), sumOf('abc'), sumOf('ab', 'c', 'c')])
        .size,
    ).toBe(5);
  });

  it('decides only what both ends have said', () => {
    const reading = (chunks: number, here: string | undefined, written?: Reading['written']): Reading => ({
      ...NO_READING,
      end: { name: 'chat-1', chunks, sha256: here },
      written,
    });
    const written = { chunks: 5, sha256: A, ms: undefined };
    expect(verdictOf(NO_READING)).toBeUndefined();
    expect(verdictOf(reading(5, A, written))).toBe('whole');
    expect(verdictOf(reading(4, B, written))).toBe('missing');
    expect(verdictOf(reading(6, B, written))).toBe('twice');
    expect(verdictOf(reading(5, B, written))).toBe('changed');
    expect(verdictOf(reading(5, undefined, written))).toBe('unknown');
    expect(verdictOf(reading(5, A))).toBe('unknown');
  });

  it('takes nothing else for what a server or a store says', () => {
    const written = { chunks: 5, sha256: A, ms: [1, 2] };
    expect(readWritten(written)).toEqual(written);
    for (const wrong of [undefined, 'x', { ...written, chunks: -1 }, { ...written, sha256: A.slice(1) }])
      expect(readWritten(wrong)).toBeUndefined();
    expect(readWritten({ ...written, ms: [1, 'x'] })).toEqual({ ...written, ms: undefined });
    const stored = { ...NO_READING, to: 7, breaks: [{ what: 'connection lost', from: 1, to: 2, caught: 0 }] };
    expect(readReading(JSON.parse(JSON.stringify(stored)))).toEqual(stored);
    expect(readReading({ ...stored, breaks: [{ what: 1 }] })).toEqual(NO_READING);
    // The page that was in it has gone.
    const inBreak = { ...stored, breaks: stored.breaks.map((each) => ({ ...each, isOpen: true })) };
    expect(readReading(inBreak)).toEqual(stored);
  });
});
