import { expect, it, vi } from 'vitest';
import type { FrameMemory as Memory } from './frame-memory.js';

it('keeps as many spare bytes of all sessions as are in flight, and 16 MiB more', async () => {
  // Nothing of other tests is counted.
  vi.resetModules();
  const { FrameMemory } = await import('./frame-memory.js');
  const size = 64 * 1024;
  const perSession = 16;
  const sessions = Array.from({ length: 40 }, () => new FrameMemory());
  const takeAll = (memory: Memory) =>
    Array.from({ length: perSession }, () => {
      memory.take(size, true);
      return memory.buffer;
    });
  const taken = new Map(sessions.map((memory) => [memory, takeAll(memory)]));
  const confirmAll = () => {
    for (const [memory, buffers] of taken) for (const buffer of buffers) memory.release(buffer, 0, size);
  };
  const kept = () => {
    let count = 0;
    for (const [memory, buffers] of taken) {
      const again = takeAll(memory);
      count += again.filter((buffer) => buffers.includes(buffer)).length;
      taken.set(memory, again);
    }
    return count;
  };
  // Of 40 MiB, 28 are spare when 12 are still in flight.
  confirmAll();
  expect(kept()).toBe(28 * perSession);
  // The second half is in flight while the first half is confirmed.
  for (const memory of sessions.slice(0, 20))
    for (const buffer of taken.get(memory) ?? []) memory.release(buffer, 0, size);
  expect(sessions.slice(0, 20).every((memory) => takeAll(memory)[0] === taken.get(memory)?.at(-1))).toBe(
    true,
  );
  for (const memory of sessions) memory.releaseAll();
  // Nothing is counted as in flight that is not.
  for (const memory of sessions) taken.set(memory, takeAll(memory));
  for (const memory of sessions) memory.releaseAll();
  confirmAll();
  expect(kept()).toBe(16 * perSession);
  for (const memory of sessions) memory.releaseAll();
});
