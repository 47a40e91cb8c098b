import { ProtocolError } from '@parlance/protocol';
import type { UserOutbound } from '@parlance/protocol/client';
import { afterEach, describe, expect, it, vi } from 'vitest';

/** The code of `retryUnsent` comes from the network in a page, which may be away when it is needed. */

const network = vi.hoisted(() => ({ isUp: true }));
vi.mock('./retries.js', async (original) => {
  if (!network.isUp) throw new TypeError('Failed to fetch dynamically imported module');
  return await original();
});

afterEach(() => {
  network.isUp = true;
});

/** An outbound whose session comes and goes. */
async function create() {
  // It remembers what was loaded.
  vi.resetModules();
  const { ClientOutbound } = await import('./outbound.js');
  const timers = new Set<() => void>();
  const sent: unknown[] = [];
  const state = { isThere: true };
  const present = {
    send: async (content: unknown) => void sent.push(content),
    request: async (content: unknown) => ({ text: `re: ${content}` }),
  } as unknown as UserOutbound;
  let module: { ready?(): void } | undefined;
  const outbound = new ClientOutbound(
    {
      present() {
        if (state.isThere) return present;
        throw new ProtocolError('session_closed', 'there is none');
      },
      isComing: () => !state.isThere,
      clock: {
        now: () => 0,
        after(_ms, task) {
          timers.add(task);
          return () => timers.delete(task);
        },
      },
      windowMs: () => 60_000,
    },
    (added) => {
      module = added;
    },
  );
  return {
    sent,
    outbound,
    timers,
    async later() {
      for (const task of timers) task();
      timers.clear();
      await turns();
    },
    leave: () => {
      state.isThere = false;
      network.isUp = false;
    },
    comeBack: () => {
      state.isThere = true;
      network.isUp = true;
      module?.ready?.();
      outbound.ready();
    },
  };
}

const turns = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
};

describe('the first calls with `retryUnsent`', () => {
  it('wait for the next session if the network is away', async () => {
    const { sent, outbound, leave, comeBack, later } = await create();
    outbound.ready();
    await later();
    leave();
    const calls = [
      outbound.send('a', { retryUnsent: true }, undefined),
      outbound.request('b', { retryUnsent: true }, undefined),
    ];
    await turns();
    comeBack();
    expect(await Promise.all(calls)).toEqual([undefined, { text: 're: b' }]);
    expect(sent).toEqual(['a']);
  });

  it('load the code themselves if it could not be loaded when the session was ready', async () => {
    const { sent, outbound, leave, comeBack, later } = await create();
    leave();
    outbound.ready();
    await later();
    comeBack();
    await outbound.send('a', { retryUnsent: true }, undefined);
    expect(sent).toEqual(['a']);
  });

  it('keep no timer of a client that has ended, and one of several sessions', async () => {
    const { outbound, timers } = await create();
    outbound.ready();
    outbound.ready();
    expect(timers.size).toBe(1);
    outbound.end(new ProtocolError('session_closed', 'closed'));
    expect(timers.size).toBe(0);
  });
});
