import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { plainBody } from '../codec/body.js';
import { encodeControl } from '../control/envelope.js';
import { errorCode } from '../testing/error-code.js';
import { createSimulation, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import { GoAwaySender } from './server-role.js';

const BODY = plainBody(Uint8Array.of(1));
const GOAWAY = { retryAfterMs: 1_500, deadline: 30_000 };

describe('the sender of GOAWAY', () => {
  it('knows that the client has read it from the PONG to the PING after it, not from earlier ones', () => {
    const sender = new GoAwaySender(GOAWAY);
    sender.handlePong();
    expect([sender.isAcknowledged, sender.announced]).toEqual([false, GOAWAY]);
    sender.handleSent(1);
    sender.handlePong();
    expect(sender.isAcknowledged).toBe(false);
    sender.handlePong();
    expect(sender.isAcknowledged).toBe(true);
    sender.handlePong();
    expect(sender.isAcknowledged).toBe(true);
    // On another connection it is sent again.
    sender.handleSent(0);
    expect(sender.isAcknowledged).toBe(false);
  });
});

describe('GOAWAY', () => {
  const simulate = (delayMs = 0) => {
    const simulation = createSimulation({ delayMs });
    simulation.advance(10 * delayMs + 1);
    return simulation;
  };

  it.each([Subprotocol.BINARY, Subprotocol.JSON])('notifies the client, in %s', (subprotocol) => {
    const { client, server, settle } = createSimulation({ client: { subprotocol }, server: { subprotocol } });
    settle();
    server.core.sendGoAway(GOAWAY, 0);
    settle();
    expect(eventsOf(client, 'goaway')).toEqual([{ type: 'goaway', ...GOAWAY }]);
    expect([client.core.goAway, server.core.goAway]).toEqual([GOAWAY, GOAWAY]);
    expect(client.core.state).toBe('established');
  });

  it('stops new requests of the client, and nothing else', () => {
    const { client, server, settle } = simulate();
    const asked = client.core.channel.request(BODY);
    settle();
    server.core.sendGoAway(GOAWAY, 0);
    settle();
    expect(() => client.core.channel.request(BODY)).toThrow(
      expect.objectContaining({ code: 'draining', retryable: true, retryAfterMs: 1_500 }),
    );
    client.core.channel.send(BODY);
    server.core.channel.chunk(asked, BODY);
    const back = server.core.channel.request(BODY);
    settle();
    client.core.channel.respond(back, BODY);
    server.core.channel.end(asked);
    settle();
    expect(eventsOf(server, 'message')).toHaveLength(1);
    expect(eventsOf(server, 'response')).toHaveLength(1);
    expect(eventsOf(client, 'part')).toHaveLength(1);
    expect(eventsOf(client, 'end')).toHaveLength(1);
  });

  it('lets the server serve a request that was on its way, and refuse one that was sent in spite of it', () => {
    const { client, server, advance, inject } = simulate(50);
    server.core.sendGoAway(GOAWAY, 100);
    const early = client.core.channel.request(BODY);
    advance(60);
    expect(eventsOf(server, 'request').map(({ streamId }) => streamId)).toEqual([early]);
    advance(200);
    inject('client', Uint8Array.of(0x11, early + 2, 0, 1));
    advance(51);
    expect(eventsOf(server, 'request')).toHaveLength(1);
    expect(server.sent.filter((frame) => frame[0] === 0x15)).toHaveLength(1);
  });

  it('is sent again on the connection that resumes the session', () => {
    const capabilities = {
      ...TEST_CAPABILITIES,
      extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' },
    };
    const { client, server, settle, cut } = createSimulation({
      client: { capabilities },
      server: { capabilities },
    });
    settle();
    server.core.sendGoAway(GOAWAY, 0);
    cut();
    expect(server.core.state).toBe('suspended');
    const before = server.sent.length;
    server.core.resume({ sessionId: 'sess_test', token: 'unchecked', received: 0, attempt: 1 }, 1);
    settle();
    expect(server.sent.length - before).toBeGreaterThanOrEqual(3);
    expect(client.core.goAway).toBeUndefined();
  });

  it('ends the session if a client sends it', () => {
    const { client, server, settle, inject } = simulate();
    expect(errorCode(() => client.core.sendGoAway(GOAWAY, 0))).toBe('invalid_argument');
    inject(
      'client',
      encodeControl({ type: 'GOAWAY', sessionId: 'sess_test', timestamp: 1, payload: GOAWAY }),
    );
    settle();
    expect(server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });
});
