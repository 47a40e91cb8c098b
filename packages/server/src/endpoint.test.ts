import { createSession, resolveLimits, resolveTimers, Subprotocol } from '@parlance/protocol';
import type { Wire } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import { ServerEndpoint } from './endpoint.js';
import { INPUT_OVERHEAD } from './moving-endpoint.js';

/** A session whose client has said nothing yet. */
function begin() {
  const time = { now: 0 };
  const limits = resolveLimits();
  const timers = resolveTimers();
  const core = createSession({
    role: 'server',
    subprotocol: Subprotocol.BINARY,
    capabilities: {
      algorithms: ['NONE'],
      encodings: [],
      vocabularies: {},
      extensions: {},
      securityScanning: false,
      maxPayloadSize: 0,
    },
    limits,
    timers,
  });
  const clock = {
    timeOrigin: 0,
    now: () => time.now,
    after: () => () => {},
    soon() {},
    yield: async () => {},
  };
  const endpoint = new ServerEndpoint({ core, clock, limits, role: 'server' });
  const closed: number[] = [];
  const wire: Wire = { bufferedAmount: 0, send() {}, close: (code) => void closed.push(code) };
  endpoint.handleConnected(wire);
  return { endpoint, closed, time, timers };
}

it('an abandoned session does not close the connection that another session took over', () => {
  const { endpoint, closed, time, timers } = begin();
  endpoint.abandon();
  time.now = timers.helloTimeoutMs;
  endpoint.handleTick();
  expect(closed).toEqual([]);
});

it('a session that is to move handles nothing, until its client has sent too much', () => {
  const { endpoint, closed } = begin();
  endpoint.holdInput();
  // No frame begins with this byte.
  const size = 1024 * 1024 - INPUT_OVERHEAD;
  for (let i = 0; i < 8; i++) endpoint.handleMessage(new Uint8Array(size).fill(0xff));
  expect([endpoint.input.length, closed]).toEqual([8, []]);
  endpoint.handleMessage(Uint8Array.of(0xff));
  expect([endpoint.input.length, closed.length]).toEqual([0, 1]);
});
