import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ServerEndpoint } from '../session/endpoint.js';
import { Drain } from './drain.js';
import type { DrainHooks } from './features/feature.js';

const MINUTE = 60_000;

/** A drain that waits for the handler of one kept reply. */
function setUp(...others: readonly DrainHooks[]) {
  const stopped: string[] = [];
  const replies = {
    running: 1,
    cut({ message }: Error) {
      stopped.push(message);
    },
    async finish() {
      stopped.push('finished');
    },
  };
  const drain = new Drain(new Map(), [...others, replies], 0, Date.now() + MINUTE, SILENT_LOGGER);
  return { drain, stopped };
}

const NOTHING = { ended: 0, interrupted: 0, lost: 0 };
const AT_THE_DEADLINE = ['the server was drained', 'finished'];

describe('a drain that an operator finishes', () => {
  it('does at once what it does at its deadline', async () => {
    const { drain, stopped } = setUp();
    const running = drain.run(MINUTE);
    expect(drain.progress.deadline).toBeGreaterThan(Date.now());
    drain.finish();
    expect(drain.progress.deadline).toBeLessThanOrEqual(Date.now());
    expect(await running).toEqual(NOTHING);
    expect(stopped).toEqual(AT_THE_DEADLINE);
  });

  it('waits for nothing if other nodes did not know of it yet', async () => {
    let tell = () => {};
    const announced = new Promise<void>((resolve) => {
      tell = resolve;
    });
    const { drain, stopped } = setUp({ announce: () => announced });
    const running = drain.run(MINUTE);
    drain.finish();
    expect(stopped).toEqual([]);
    tell();
    expect(await running).toEqual(NOTHING);
    expect(stopped).toEqual(AT_THE_DEADLINE);
  });

  it('continues if a part fails', async () => {
    const fault = () => {
      throw new Error('a fault');
    };
    const { drain, stopped } = setUp({ announce: fault, park: fault, cut: fault, finish: fault });
    const running = drain.run(MINUTE);
    drain.finish();
    expect(await running).toEqual({ ...NOTHING, moved: 0 });
    expect(stopped).toEqual(AT_THE_DEADLINE);
  });

  it('keeps the deadline if that has passed', () => {
    const deadline = Date.now() - MINUTE;
    const drain = new Drain(new Map(), [], 0, deadline, SILENT_LOGGER);
    drain.finish();
    expect(drain.progress.deadline).toBe(deadline);
  });
});

/** A session that counts as open until it has been told to move. */
function createMover(name: string, openStreams: number, told: string[]) {
  return {
    hasEnded: false,
    hasWire: true,
    core: { channel: { openStreams } },
    sendGoAway: ({ move }: { readonly move?: boolean }) => told.push(`${name} ${move}`),
  } as unknown as ServerEndpoint;
}

describe('clients that move', () => {
  const MOVES: DrainHooks = { farewell: () => ({ move: true }), park: async () => {} };
  const SECOND = 1_000;

  function moversOf(count: number) {
    const told: string[] = [];
    const names = Array.from({ length: count }, (_, i) => `s${i}`);
    const sessions = new Map(names.map((name, i) => [name, createMover(name, i === 50 ? 1 : 0, told)]));
    const drain = new Drain(sessions, [MOVES], 0, Date.now() + MINUTE, SILENT_LOGGER);
    return { told, sessions, drain };
  }

  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('are told a few at a time, those with streams first', async () => {
    const { told, drain } = moversOf(100);
    void drain.run(MINUTE).catch(() => {});
    await vi.advanceTimersByTimeAsync(0);
    expect(told).toEqual(['s50 true', 's0 true']);
    await vi.advanceTimersByTimeAsync(500);
    expect(told).toHaveLength(52);
    await vi.advanceTimersByTimeAsync(500);
    expect(new Set(told).size).toBe(100);
  });

  it('are all told within half of the time, however many they are', async () => {
    const { told, drain } = moversOf(10_000);
    void drain.run(10 * SECOND).catch(() => {});
    await vi.advanceTimersByTimeAsync(2 * SECOND);
    expect(told.length).toBeLessThan(4_500);
    await vi.advanceTimersByTimeAsync(3 * SECOND);
    expect(new Set(told).size).toBe(10_000);
  });

  it('are not told when it is their turn and they have gone', async () => {
    const { told, sessions, drain } = moversOf(100);
    void drain.run(MINUTE).catch(() => {});
    await vi.advanceTimersByTimeAsync(0);
    for (const session of sessions.values()) (session as { hasEnded: boolean }).hasEnded = true;
    await vi.advanceTimersByTimeAsync(MINUTE / 2);
    expect(told).toHaveLength(2);
  });
});
