import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameMemory } from './frame-memory.js';
import { ReplayLog } from './replay.js';

const lengths = fc.oneof(fc.nat(40), fc.nat(2100), fc.nat(70_000));

/** Writes a frame of `length` bytes whose content identifies it. */
function write(memory: FrameMemory, log: ReplayLog, length: number, number: number): Uint8Array {
  memory.take(length, true);
  const { buffer, offset } = memory;
  buffer.fill(number % 251, offset, offset + length);
  log.append(buffer, offset, length);
  return buffer.subarray(offset, offset + length);
}

describe('a replay log', () => {
  it('holds the frames that were not dropped, regardless of what is written and dropped around them', () => {
    const steps = fc.array(fc.record({ session: fc.nat(1), length: lengths, drop: fc.nat(3) }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(steps, (history) => {
        const memories = [new FrameMemory(), new FrameMemory()] as const;
        const logs = memories.map((memory) => new ReplayLog(memory));
        const expected: { length: number; number: number }[][] = [[], []];
        for (const [number, { session, length, drop }] of history.entries()) {
          const log = logs[session] as ReplayLog;
          write(memories[session] as FrameMemory, log, length, number);
          expected[session]?.push({ length, number });
          log.drop(drop);
          expected[session]?.splice(0, drop);
        }
        for (const [session, log] of logs.entries()) {
          expect(log.size).toBe(expected[session]?.length);
          for (const [i, { length, number }] of (expected[session] ?? []).entries()) {
            const frame = log.at(i) as Uint8Array;
            expect([frame.length, frame.every((byte) => byte === number % 251)]).toEqual([length, true]);
          }
        }
      }),
    );
  });

  it('holds small frames that share one ring', () => {
    const steps = fc.array(fc.record({ length: fc.integer({ min: 1, max: 900 }), drop: fc.nat(3) }), {
      minLength: 100,
      maxLength: 400,
    });
    fc.assert(
      fc.property(steps, fc.nat(60), (history, kept) => {
        const memory = new FrameMemory();
        const log = new ReplayLog(memory);
        let dropped = 0;
        for (const [number, { length, drop }] of history.entries()) {
          write(memory, log, length, number);
          if (log.size <= kept) continue;
          const count = Math.min(drop, log.size);
          log.drop(count);
          dropped += count;
        }
        for (let i = 0; i < log.size; i++) {
          const frame = log.at(i) as Uint8Array;
          expect(frame.every((byte) => byte === (dropped + i) % 251)).toBe(true);
          expect(frame).toHaveLength(history[dropped + i]?.length as number);
        }
      }),
    );
  });

  it('returns nothing beyond its frames, and nothing after it is cleared', () => {
    const memory = new FrameMemory();
    const log = new ReplayLog(memory);
    write(memory, log, 10, 1);
    expect(log.at(1)).toBeUndefined();
    log.drop(5);
    expect([log.size, log.at(0)]).toEqual([0, undefined]);
    write(memory, log, 3000, 2);
    log.clear();
    expect([log.size, log.at(0)]).toEqual([0, undefined]);
  });

  it('compacts a long history without losing its position', () => {
    const memory = new FrameMemory();
    const log = new ReplayLog(memory);
    for (let number = 0; number < 2000; number++) {
      write(memory, log, 8, number);
      if (number >= 3) log.drop(1);
      expect(log.at(0)?.[0]).toBe(Math.max(0, number - 2) % 251);
    }
  });
});

describe('frame memory', () => {
  it('is reused by the session that released it, and never by another', () => {
    const [own, other] = [new FrameMemory(), new FrameMemory()];
    own.take(10_000, true);
    const { buffer } = own;
    own.release(buffer, 0, 10_000);
    other.take(10_000, true);
    expect(other.buffer).not.toBe(buffer);
    own.take(9_000, true);
    expect(own.buffer).toBe(buffer);
    own.take(9_000, true);
    expect(own.buffer).not.toBe(buffer);
    own.releaseAll();
    other.releaseAll();
  });

  it('is released on demand', () => {
    const memory = new FrameMemory();
    memory.take(10_000, true);
    const { buffer } = memory;
    memory.release(buffer, 0, 10_000);
    memory.releaseAll();
    memory.take(10_000, true);
    expect(memory.buffer).not.toBe(buffer);
    memory.releaseAll();
  });

  it('allocates nothing for small frames after others were released', () => {
    const memory = new FrameMemory();
    const log = new ReplayLog(memory);
    const buffers = new Set<unknown>();
    for (let number = 0; number < 1000; number++) {
      write(memory, log, 500, number);
      buffers.add(memory.buffer.buffer);
      if (log.size > 16) log.drop(8);
    }
    // 4, 8 and 16 KiB.
    expect(buffers.size).toBeLessThanOrEqual(3);
  });

  it('keeps at most 1,088 KiB of spare buffers', () => {
    const memory = new FrameMemory();
    const size = 64 * 1024;
    const taken = Array.from({ length: 18 }, () => {
      memory.take(size, true);
      return memory.buffer;
    });
    for (const buffer of taken) memory.release(buffer, 0, size);
    const again = taken.map(() => {
      memory.take(size, true);
      return memory.buffer;
    });
    expect(again.filter((buffer) => taken.includes(buffer))).toHaveLength(17);
    memory.releaseAll();
  });
});
