import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { encodeControl } from '../control/envelope.js';
import { encodeMap } from '../control/maps.js';
import { type ControlMessage, ResumeRefusal } from '../control/messages.js';
import { errorCode } from '../testing/error-code.js';
import { createSimulation } from '../testing/simulation.js';

/** Commands and messages of the other role. */

const GOAWAY = { retryAfterMs: 1, deadline: 2 };
const established = () => {
  const simulation = createSimulation();
  simulation.advance(10);
  return simulation;
};

describe('a command of the other role', () => {
  it.each([
    ['accept', (core) => core.accept('sess_other', 0)],
    ['resume', (core) => core.resume({ sessionId: 's', token: 't', received: 0, attempt: 1 }, 0)],
    ['grant', (core) => core.grant(1, 0)],
    ['sendGoAway', (core) => core.sendGoAway(GOAWAY, 0)],
  ] satisfies [string, (core: ReturnType<typeof established>['client']['core']) => void][])(
    '%s throws at a client and changes nothing',
    (_name, command) => {
      const { client, settle } = established();
      const before = client.sent.length;
      expect(errorCode(() => command(client.core))).toBe('invalid_argument');
      settle();
      expect([client.core.state, client.sent.length]).toEqual(['established', before]);
    },
  );

  it('authenticate throws at a server and changes nothing', () => {
    const { server, settle } = established();
    const before = server.sent.length;
    expect(errorCode(() => server.core.authenticate('token', 0))).toBe('invalid_argument');
    settle();
    expect([server.core.state, server.sent.length]).toEqual(['established', before]);
  });

  it('checkResume refuses every HELLO at a client', () => {
    expect(established().client.core.checkResume({} as never, 'm2m.v1')).toBe(ResumeRefusal.UNKNOWN_SESSION);
  });
});

describe('a message that only the other role may send', () => {
  const envelope = { sessionId: 'sess_test', timestamp: 1 };
  it.each<[string, 'client' | 'server', ControlMessage]>([
    ['GOAWAY', 'client', { ...envelope, type: 'GOAWAY', payload: GOAWAY }],
    ['REJECT', 'client', { ...envelope, type: 'REJECT', payload: { code: 'UNKNOWN', message: '' } }],
    ['AUTH without a token', 'client', { ...envelope, type: 'AUTH', payload: { expiresAt: 1 } }],
    ['AUTH with a token', 'server', { ...envelope, type: 'AUTH', payload: { token: 'token' } }],
  ])('%s of a %s ends the session', (_name, from, message) => {
    const simulation = established();
    simulation.inject(from, encodeControl(message));
    simulation.settle();
    const receiver = from === 'client' ? simulation.server : simulation.client;
    expect(receiver.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });
});

describe('WAIT', () => {
  const wait = encodeMap({ type: 'WAIT', timestamp: 1 });
  const waiting = () => createSimulation({ onHello: () => {} });

  it.each([
    ['before the answer to its HELLO', waiting],
    ['after ACCEPT', established],
  ])('of a client %s ends the session', (_when, start) => {
    const simulation = start();
    simulation.settle();
    simulation.inject('client', wait);
    simulation.settle();
    expect(simulation.server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });

  it.each([
    ['before ACCEPT', waiting, 'connecting'],
    ['after ACCEPT', established, 'established'],
  ])('of a server %s changes nothing', (_when, start, state) => {
    const simulation = start();
    simulation.settle();
    simulation.inject('server', wait);
    simulation.settle();
    expect([simulation.client.closedWith, simulation.client.core.state]).toEqual([undefined, state]);
  });
});
