import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ENGINE_TIMEOUT_MS } from '../engine.js';
import { RedisCalls } from './calls.js';
import { adaptClient, type IoredisClient, type RedisCommands } from './client.js';
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

describe('a command of more arguments than the stack has room for', () => {
  const args = Array.from({ length: 120_000 }, (_, i) => `${i}`);
  /** As the clients of Redis take it apart. */
  const heard: unknown[][] = [];
  const take = async (...command: unknown[]) => {
    heard.push(command.flat());
    return 'OK';
  };
  const clients = {
    ioredis: { call: take, callBuffer: take },
    'an own connection of ioredis': {
      call: take,
      callBuffer: take,
      duplicate: () => ({
        ...{ call: take, callBuffer: take, status: 'ready', disconnect() {} },
        on: (event: string, listener: () => void) => event === 'ready' && queueMicrotask(listener),
      }),
    },
    redis: { sendCommand: take },
  };

  it.each(Object.entries(clients))('is sent over %s, as texts and as bytes', async (_, client) => {
    vi.useRealTimers();
    const calls = new RedisCalls(adaptClient(client as unknown as IoredisClient));
    const lane = { max: 1, unanswered: 0 };
    const { digest, source } = script('return 1');
    for (const run of ['run', 'runBytes'] as const) {
      heard.length = 0;
      expect(await calls[run](lane, { digest, source }, ['key'], ...args)).toBe('OK');
      expect(heard.length).toBe(1);
      expect(heard[0]?.slice(0, 5)).toEqual(['EVALSHA', digest, '1', 'key', '0']);
      expect(heard[0]?.slice(0, args.length + 4).at(-1)).toBe('119999');
    }
    calls.close();
  });
});
