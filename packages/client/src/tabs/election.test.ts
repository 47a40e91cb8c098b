import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Election } from './election.js';
import { Hubs } from './hub.js';
import { holdLock } from './presence.js';
import { settle, TestClock, TestLocks } from './testing/origin.js';

/** A tab that stops looking for a host, or being one, leaves no channel or lock behind. */

const channels = new Set<BroadcastChannel>();
class WatchedChannel extends BroadcastChannel {
  constructor(name: string) {
    super(name);
    channels.add(this);
  }
  override close(): void {
    super.close();
    channels.delete(this);
  }
}
beforeEach(() => void vi.stubGlobal('BroadcastChannel', WatchedChannel));
afterEach(() => {
  for (const channel of channels) channel.close();
  vi.unstubAllGlobals();
});

function setUp() {
  const clock = new TestClock();
  const locks = new TestLocks();
  const free: string[] = [];
  /** Notes when a lock is free. */
  const watch = (name: string) => void holdLock(locks, name).then(() => free.push(name));
  const create = () =>
    new Election({
      name: 'election',
      locks,
      createHubs: async (onIdle) => {
        const release = await holdLock(locks, 'host');
        const open = () => expect.fail('no session is opened');
        return new Hubs({ open, clock, locks, lock: 'host' }, () => {
          release();
          onIdle();
        });
      },
    });
  return { clock, locks, free, watch, create };
}

it('a tab that stops looking for a host leaves no channel open', async () => {
  const { locks, create } = setUp();
  // Another tab has the lock, and does not answer.
  await holdLock(locks, 'election');
  const election = create();
  void election.attach();
  await settle();
  expect(channels.size).toBe(2);
  election.stop();
  expect(channels.size).toBe(0);
});

it('an elected tab that never joins does not stay the host', async () => {
  const { clock, create, free, watch } = setUp();
  const election = create();
  void election.attach();
  await settle();
  watch('election');
  watch('host');
  election.stop();
  await clock.advance(9_999);
  expect(free).toEqual([]);
  await clock.advance(1);
  await settle();
  expect([free.sort(), channels.size]).toEqual([['election', 'host'], 0]);
});

it('a tab that stops while it is elected frees its locks', async () => {
  const { create, free, watch } = setUp();
  const election = create();
  void election.attach();
  election.stop();
  watch('election');
  watch('host');
  await settle();
  expect([free.sort(), channels.size]).toEqual([['election', 'host'], 0]);
});
