import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { ProtocolError } from '../base/errors.js';
import { resolveTimers } from '../base/limits.js';
import { encodeControl } from '../control/envelope.js';
import { createSimulation, eventsOf } from '../testing/simulation.js';
import { CredentialExpiry } from './credential-expiry.js';

describe('the expiry of credentials', () => {
  it('waits for a decision on new credentials that arrived in time', () => {
    const expiry = new CredentialExpiry({ timers: resolveTimers({ acceptTimeoutMs: 1_000 }) });
    expect(expiry.deadline).toBe(Infinity);
    expiry.handleGranted(500);
    expiry.handleRequested(400);
    expect([expiry.isPending, expiry.deadline]).toEqual([true, 1_400]);
    expiry.handleGranted(9_000);
    expect([expiry.isPending, expiry.deadline]).toEqual([false, 9_000]);
    expiry.handleRequested(8_900);
    expiry.handleGranted(Infinity);
    expect(expiry.deadline).toBe(Infinity);
  });

  it.each([
    ['ahead', 3_600_000, 400],
    ['back', -3_600_000, 9_000],
    ['ahead by less than is left', 5_000, 4_000],
  ])('comes when either clock says so, if the clock of the machine is set %s', (_how, step, end) => {
    const options = { timers: resolveTimers(), timeOrigin: 1_700_000_000_000 };
    const expiry = new CredentialExpiry(options);
    expiry.handleGranted(9_000);
    options.timeOrigin += step;
    expect(Math.max(400, expiry.deadline)).toBe(end);
    expect(expiry.snapshot(400)).toBe(expiry.deadline - 400);
    const elsewhere = new CredentialExpiry(options);
    elsewhere.handleGranted(700 + expiry.snapshot(700));
    expect(elsewhere.deadline).toBe(expiry.deadline);
    // Credentials that are granted later are stated on the new clock.
    expiry.handleGranted(20_000);
    expect(expiry.deadline).toBe(20_000);
    expiry.handleGranted(Infinity);
    expect(expiry.deadline).toBe(Infinity);
  });

  const simulate = () => {
    const simulation = createSimulation({
      onHello(core, now) {
        core.accept('sess_test', now);
        core.grant(60_000, now);
      },
    });
    simulation.settle();
    return simulation;
  };

  it('is sent to the client, unless there is none', () => {
    expect(eventsOf(simulate().client, 'granted')).toEqual([{ type: 'granted', expiresInMs: 60_000 }]);
    const endless = createSimulation({
      onHello(core, now) {
        core.accept('sess_test', now);
        core.grant(null, now);
      },
    });
    endless.settle();
    expect(eventsOf(endless.client, 'granted')).toEqual([]);
  });

  it('ends the session with 4401 if no new credentials have arrived', () => {
    const { client, server, advance } = simulate();
    advance(59_999);
    expect(client.core.state).toBe('established');
    advance(1);
    expect(server.closedWith).toMatchObject({ code: CloseCode.UNAUTHENTICATED });
    expect(eventsOf(client, 'ended')[0]?.error).toMatchObject({
      code: 'unauthenticated',
      side: 'remote',
      retryable: false,
    });
  });

  it('is extended by AUTH, which is answered', () => {
    const { client, server, advance, settle, now } = simulate();
    advance(50_000);
    client.core.authenticate('renewed', now);
    settle();
    expect(eventsOf(server, 'auth')).toEqual([{ type: 'auth', token: 'renewed' }]);
    server.core.grant(200_000, 50_000);
    settle();
    expect(eventsOf(client, 'granted').at(-1)).toEqual({ type: 'granted', expiresInMs: 150_000 });
    advance(149_999);
    expect(client.core.state).toBe('established');
    client.core.authenticate('renewed again', 199_999);
    settle();
    server.core.grant(null, 199_999);
    settle();
    expect(eventsOf(client, 'granted').at(-1)).toEqual({ type: 'granted', expiresInMs: Infinity });
  });

  it('is not due while AUTH is being checked, for a while', () => {
    const { client, server, advance } = simulate();
    advance(59_990);
    client.core.authenticate('renewed', 59_990);
    advance(29_990);
    expect(server.core.state).toBe('established');
    advance(10);
    expect(server.closedWith).toMatchObject({ code: CloseCode.UNAUTHENTICATED });
  });

  it('ends with 4401 if the new credentials are refused', () => {
    const { client, server, settle } = simulate();
    client.core.authenticate('forged', 0);
    settle();
    server.core.abort(new ProtocolError('unauthenticated', 'no'), 0);
    settle();
    expect(eventsOf(client, 'ended')[0]?.error).toMatchObject({ code: 'unauthenticated', closeCode: 4401 });
  });

  it.each([
    ['without a token', [{ expiresAt: 1 }]],
    ['before the previous one was answered', [{ token: 'a' }, { token: 'b' }]],
  ])('refuses AUTH %s', (_what, payloads) => {
    const { server, settle, inject } = simulate();
    for (const payload of payloads as ({ token: string } | { expiresAt: number })[])
      inject('client', encodeControl({ type: 'AUTH', sessionId: 'sess_test', timestamp: 1, payload }));
    settle();
    expect(server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });
});
