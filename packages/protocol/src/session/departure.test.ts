import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { plainBody } from '../codec/body.js';
import { createSimulation, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import { Departure } from './departure.js';

const BODY = plainBody(Uint8Array.of(1));
const GOAWAY = { retryAfterMs: 1_500, deadline: 30_000 };

describe('a departure', () => {
  it('is heard with the PONG to the PING behind GOAWAY, and with none to those before', () => {
    const departure = new Departure(GOAWAY);
    departure.handlePong();
    expect([departure.isHeard, departure.announced]).toEqual([false, GOAWAY]);
    departure.handleSaid(1);
    departure.handlePong();
    expect(departure.isHeard).toBe(false);
    departure.handlePong();
    expect(departure.isHeard).toBe(true);
    departure.handlePong();
    expect(departure.isHeard).toBe(true);
    // On another connection everything is said again.
    departure.handleSaid(0);
    expect(departure.isHeard).toBe(false);
  });
});

describe('GOAWAY', () => {
  const simulate = (delayMs = 0) => {
    const simulation = createSimulation({ delayMs });
    simulation.advance(10 * delayMs + 1);
    return simulation;
  };

  it.each([Subprotocol.BINARY, Subprotocol.JSON])('tells the client what to do, in %s', (subprotocol) => {
    const { client, server, settle } = createSimulation({ client: { subprotocol }, server: { subprotocol } });
    settle();
    server.core.sendGoAway(GOAWAY, 0);
    settle();
    expect(eventsOf(client, 'goaway')).toEqual([{ type: 'goaway', ...GOAWAY }]);
    expect([client.core.goAway, server.core.goAway]).toEqual([GOAWAY, GOAWAY]);
    expect(client.core.state).toBe('established');
  });

  it('lets no new request out, and everything else', () => {
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

  it('serves a request that was on its way, and refuses one that was sent in spite of it', () => {
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

  it('is said again on the connection that takes the session up', () => {
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

  it('is no word of a client', () => {
    const { client, server, settle } = simulate();
    client.core.sendGoAway(GOAWAY, 0);
    settle();
    expect(server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });
});
