import { createSession, resolveLimits, resolveTimers, Subprotocol } from '@parlance/protocol';
import type { Wire } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import { ServerEndpoint } from './endpoint.js';

it('an abandoned session does not close the connection that another session took over', () => {
  let now = 0;
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
  const clock = { timeOrigin: 0, now: () => now, after: () => () => {}, soon() {}, yield: async () => {} };
  const endpoint = new ServerEndpoint({ core, clock, limits, role: 'server' });
  const closed: number[] = [];
  const wire: Wire = { bufferedAmount: 0, send() {}, close: (code) => void closed.push(code) };
  endpoint.handleConnected(wire);
  endpoint.abandon();
  now = timers.helloTimeoutMs;
  endpoint.handleTick();
  expect(closed).toEqual([]);
});
