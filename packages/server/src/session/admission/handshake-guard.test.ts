import { resolveLimits } from '@parlance/protocol';
import { expect, it } from 'vitest';
import { HandshakeGuard } from './handshake-guard.js';

/** Bytes of HELLO, and of what surrounds it. */
const MOST = 64 * 1024 + 4 * 1024;

function createGuard() {
  const done: string[] = [];
  const traffic = { sent: 0, received: 0 };
  const session = {
    longestMessage: undefined as number | undefined,
    abort: ({ code }: { readonly code: string }) => void done.push(code),
  };
  const wire = {
    ...{ traffic, terminate() {} },
    ...{ hold: () => void done.push('hold'), unhold: () => void done.push('unhold') },
  };
  const guard = new HandshakeGuard(wire as never, session as never, {
    limits: resolveLimits(),
  });
  return { guard, done, traffic, session };
}

it('a client that sends too much before ACCEPT is cut off', () => {
  const { guard, done, traffic } = createGuard();
  traffic.received = MOST;
  guard.handleData();
  expect(done).toEqual([]);
  traffic.received++;
  guard.handleData();
  expect(done).toEqual(['message_too_large', 'hold']);
  guard.end();
  expect(done).toHaveLength(2);
});

it('what a client sends after ACCEPT waits until its session begins', () => {
  const { guard, done, traffic, session } = createGuard();
  session.longestMessage = 1024;
  traffic.received = MOST + 1;
  guard.handleData();
  traffic.received++;
  guard.handleData();
  expect(done).toEqual(['hold']);
  guard.end();
  expect(done).toEqual(['hold', 'unhold']);
});
