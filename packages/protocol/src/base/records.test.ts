import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeClose, encodeRecords, KEEP_ALIVE, RecordReader } from './records.js';

const MAX = 1_000;

function reading(max = MAX) {
  const events: unknown[] = [];
  const reader = new RecordReader(max, {
    onRecord: (frame) => events.push([...frame]),
    onClose: (code, reason) => events.push([code, reason]),
  });
  return { reader, events };
}

const frames = fc.array(fc.uint8Array({ minLength: 1, maxLength: 400 }), { maxLength: 12 });

/** The pieces between the cuts. */
function cut(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const at = [...new Set(cuts.map((each) => each % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((start, i) => bytes.slice(start, at[i] ?? bytes.length));
}

describe('records', () => {
  it('are the same however their bytes are cut', () => {
    fc.assert(
      fc.property(
        frames,
        fc.array(fc.nat(5_000), { maxLength: 40 }),
        fc.string({ unit: 'grapheme', maxLength: 20 }),
        (given, cuts, reason) => {
          const bytes = encodeRecords(given, encodeClose(4_408, reason));
          const { reader, events } = reading();
          for (const piece of cut(bytes, cuts)) reader.push(piece);
          expect(events).toEqual([...given.map((frame) => [...frame]), [4_408, reason]]);
          expect(reader.isComplete).toBe(true);
        },
      ),
    );
  });

  it('that were handed over do not change when more arrives', () => {
    const kept: Uint8Array[] = [];
    const reader = new RecordReader(MAX, { onRecord: (frame) => kept.push(frame), onClose() {} });
    for (let i = 1; i <= 5; i++) {
      const bytes = encodeRecords([new Uint8Array(300).fill(i)]);
      for (const piece of cut(bytes, [1, 7, 150])) reader.push(piece);
    }
    expect(kept.map((frame) => [frame[0], frame.at(-1), frame.length])).toEqual(
      [1, 2, 3, 4, 5].map((i) => [i, i, 300]),
    );
  });

  it('may have the largest length, and not a byte more, which is refused by the length alone', () => {
    const { reader, events } = reading();
    reader.push(encodeRecords([new Uint8Array(MAX)]));
    expect(events).toHaveLength(1);
    const longer = encodeRecords([new Uint8Array(MAX + 1)]);
    expect(() => reader.push(longer.subarray(0, 2))).toThrow(
      expect.objectContaining({ code: 'message_too_large' }),
    );
  });

  it('have a length of at most five bytes', () => {
    const { reader } = reading();
    reader.push(Uint8Array.of(0x80, 0x80, 0x80, 0x80, 0x80));
    expect(reader.isComplete).toBe(false);
    expect(() => reader.push(Uint8Array.of(0))).toThrow(expect.objectContaining({ code: 'bad_frame' }));
  });

  it('that only keep the connection alive are no events', () => {
    const { reader, events } = reading();
    for (const byte of KEEP_ALIVE) reader.push(Uint8Array.of(byte));
    reader.push(encodeRecords([Uint8Array.of(7)]));
    expect(events).toEqual([[7]]);
  });

  it('take time and memory in proportion to what has arrived, also byte by byte', () => {
    const { reader, events } = reading(2 ** 20);
    const bytes = encodeRecords([new Uint8Array(2 ** 20)]);
    let allocated = 0;
    const Native = Uint8Array;
    globalThis.Uint8Array = new Proxy(Native, {
      construct(target, args: [number], as) {
        if (typeof args[0] === 'number') allocated += args[0];
        return Reflect.construct(target, args, as) as object;
      },
    });
    try {
      for (let i = 0; i < bytes.length; i++) reader.push(bytes.subarray(i, i + 1));
    } finally {
      globalThis.Uint8Array = Native;
    }
    expect(events).toHaveLength(1);
    expect(allocated).toBeLessThan(5 * 2 ** 20);
  });
});
