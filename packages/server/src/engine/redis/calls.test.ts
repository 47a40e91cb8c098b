import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ENGINE_TIMEOUT_MS } from '../engine.js';
import { RedisCalls } from './calls.js';
import type { RedisCommands } from './client.js';
import { script } from './lua.js';

/** Commands to a Redis that never answers. */

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const silent = (): RedisCommands => ({
  isShared: false,
  ready: Promise.resolve(),
  onLost() {},
  close() {},
  cut() {},
  send: () => new Promise(() => {}),
});

it.each([
  ['99 arguments, the deadline', 99, ENGINE_TIMEOUT_MS],
  ['100 arguments, a millisecond more', 100, ENGINE_TIMEOUT_MS + 1],
  ['50,000 arguments, half a second more', 50_000, ENGINE_TIMEOUT_MS + 500],
])('gives Redis, for a command of %s', async (_what, length, withinMs) => {
  const calls = new RedisCalls({ isShared: false, open: async () => silent() });
  let outcome: unknown;
  // Beside the arguments of the script: its name, its digest, and how many keys it has.
  const args = Array.from({ length: length - 3 }, String);
  calls.run({ max: 1, unanswered: 0 }, script('return 1'), [], ...args).catch((error: Error) => {
    outcome = error.message;
  });
  await vi.advanceTimersByTimeAsync(withinMs - 1);
  expect(outcome).toBeUndefined();
  await vi.advanceTimersByTimeAsync(2);
  expect(outcome).toBe(`Redis did not answer within ${withinMs} ms`);
});
