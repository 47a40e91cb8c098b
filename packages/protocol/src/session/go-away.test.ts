import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { plainBody } from '../codec/body.js';
import { encodeControl } from '../control/envelope.js';
import { errorCode } from '../testing/error-code.js';
import { createSimulation, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import { GoAwaySender } from './go-away-sender.js';

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

describe('GOAWAY with move', () => {
  const MOVE = { ...GOAWAY, move: true };
  const RESUMABLE = { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' };
  const MOVABLE = { ...RESUMABLE, [Extension.MOVE]: '1' };
  const simulate = (client: object = MOVABLE, server: object = MOVABLE, delayMs = 0) => {
    const capabilities = (extensions: object) => ({
      capabilities: { ...TEST_CAPABILITIES, extensions: { ...extensions } },
    });
    const ends = { client: capabilities(client), server: capabilities(server) };
    const simulation = createSimulation({ ...ends, delayMs });
    simulation.advance(10 * delayMs);
    return simulation;
  };

  it('asks for another connection, and streams are still opened and accepted', () => {
    const { client, server, settle } = simulate();
    server.core.sendGoAway(MOVE, 0);
    settle();
    expect(eventsOf(client, 'goaway')).toEqual([{ type: 'goaway', ...MOVE }]);
    expect([client.core.goAway, server.core.goAway]).toEqual([undefined, undefined]);
    client.core.channel.request(BODY);
    settle();
    expect(eventsOf(server, 'request')).toHaveLength(1);
    expect(server.sent.filter((frame) => frame[0] === 0x15)).toEqual([]);
  });

  it.each([
    ['client', RESUMABLE, MOVABLE],
    ['server', MOVABLE, RESUMABLE],
    ['link', { [Extension.MOVE]: '1', [Extension.RESUME]: '{}' }, MOVABLE],
  ])('is GOAWAY without it if the %s has not agreed', (which, ofClient, ofServer) => {
    const { client, server, settle } = simulate(ofClient, ofServer);
    expect(client.core.negotiated?.extensions[Extension.MOVE]).toBeUndefined();
    server.core.sendGoAway(MOVE, 0);
    settle();
    expect(eventsOf(client, 'goaway')).toEqual([{ type: 'goaway', ...GOAWAY }]);
    expect([client.core.goAway, server.core.goAway]).toEqual([GOAWAY, GOAWAY]);
    if (which !== 'link') expect(errorCode(() => client.core.channel.request(BODY))).toBe('draining');
  });

  it('drains a client that has not agreed, although its server says move', () => {
    const { client, settle, inject } = simulate(RESUMABLE, RESUMABLE);
    const frame = encodeControl({ type: 'GOAWAY', sessionId: 'sess_test', timestamp: 1, payload: MOVE });
    inject('server', frame);
    settle();
    expect(eventsOf(client, 'goaway')).toEqual([{ type: 'goaway', ...GOAWAY }]);
    expect(errorCode(() => client.core.channel.request(BODY))).toBe('draining');
  });

  it('is followed by one without it if the server is shut down before the session has moved', () => {
    const { client, server, settle } = simulate();
    server.core.sendGoAway(MOVE, 0);
    server.core.channel.request(BODY);
    server.core.close('SERVER_SHUTDOWN', '', 0);
    settle();
    expect(eventsOf(client, 'goaway')).toEqual([
      { type: 'goaway', ...MOVE },
      { type: 'goaway', ...GOAWAY },
    ]);
    expect(client.core.goAway).toEqual(GOAWAY);
  });

  it.each(['NORMAL', 'SERVER_SHUTDOWN'] as const)('is not repeated if the session closes (%s)', (reason) => {
    const { client, server, settle } = simulate();
    if (reason === 'NORMAL') server.core.sendGoAway(MOVE, 0);
    server.core.close(reason, '', 0);
    settle();
    expect(eventsOf(client, 'goaway')).toHaveLength(reason === 'NORMAL' ? 1 : 0);
    expect(client.core.goAway).toBeUndefined();
  });

  it('needs resume', () => {
    const withoutResume = { [Extension.LINK]: '{}', [Extension.MOVE]: '1' };
    const { client, server } = simulate(MOVABLE, withoutResume);
    expect(client.core.negotiated?.extensions[Extension.MOVE]).toBeUndefined();
    expect(server.core.negotiated?.extensions[Extension.MOVE]).toBeUndefined();
  });

  it('is for the present connection, and the one after it is not asked again', () => {
    const { client, server, settle, swap, cut, reconnect } = simulate();
    server.core.sendGoAway(MOVE, 0);
    settle();
    swap();
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
    cut();
    server.core.sendGoAway(MOVE, 0);
    reconnect();
    expect(eventsOf(client, 'goaway')).toHaveLength(1);
  });

  it('moves a session in which both ends have sent what the other has not received', () => {
    const { client, server, advance, swap } = simulate();
    for (const { core } of [client, server]) core.channel.send(BODY);
    swap({ delayMs: 30, closeCode: CloseCode.TIMEOUT });
    for (const { core } of [client, server]) core.channel.send(BODY);
    advance(100);
    expect([eventsOf(client, 'message').length, eventsOf(server, 'message').length]).toEqual([2, 2]);
    expect(client.core.channel.framesUnconfirmed).toBeLessThanOrEqual(2);
  });

  it('moves a session that closes, which then ends in order', () => {
    const { client, server, advance, swap } = simulate(MOVABLE, MOVABLE, 10);
    client.core.channel.send(BODY);
    client.core.close('NORMAL', '', 100);
    swap({ delayMs: 20 });
    expect([client.core.state, server.core.state]).toEqual(['closing', 'established']);
    advance(6_000);
    expect(eventsOf(server, 'message')).toHaveLength(1);
    expect([eventsOf(client, 'ended'), eventsOf(server, 'ended')].flat()).toEqual([
      { type: 'ended', error: undefined },
      { type: 'ended', error: undefined },
    ]);
  });
});

describe('a session that has resumed', () => {
  const capabilities = {
    ...TEST_CAPABILITIES,
    extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' },
  };

  it('opens streams again, unless its server says again that it drains', () => {
    const simulation = createSimulation({ client: { capabilities }, server: { capabilities } });
    const { client, server, settle, cut, inject } = simulation;
    settle();
    const goAway = encodeControl({ type: 'GOAWAY', sessionId: 'sess_test', timestamp: 1, payload: GOAWAY });
    inject('server', goAway);
    settle();
    expect(errorCode(() => client.core.channel.request(BODY))).toBe('draining');
    cut();
    simulation.reconnect();
    expect(client.core.goAway).toBeUndefined();
    client.core.channel.request(BODY);
    settle();
    expect(eventsOf(server, 'request')).toHaveLength(1);
    server.core.sendGoAway(GOAWAY, 0);
    cut();
    simulation.reconnect();
    expect(errorCode(() => client.core.channel.request(BODY))).toBe('draining');
  });

  it('still knows why it closes if it does so for the drain, and a server that does not drain ends it', () => {
    const simulation = createSimulation({ client: { capabilities }, server: { capabilities } });
    const { client, settle, cut, inject } = simulation;
    settle();
    inject(
      'server',
      encodeControl({ type: 'GOAWAY', sessionId: 'sess_test', timestamp: 1, payload: GOAWAY }),
    );
    settle();
    client.core.close('CLIENT_SHUTDOWN', '', 0);
    cut();
    simulation.reconnect();
    settle();
    expect(eventsOf(client, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
    expect(client.core.goAway).toMatchObject(GOAWAY);
  });

  it('is served what it has asked for before it has read GOAWAY again', () => {
    const simulation = createSimulation({ client: { capabilities }, server: { capabilities }, delayMs: 20 });
    const { server, advance, cut, inject } = simulation;
    advance(100);
    server.core.sendGoAway(GOAWAY, 100);
    advance(100);
    cut();
    simulation.reconnect();
    // It arrives after HELLO, and before the PONG that proves that GOAWAY was read.
    inject('client', Uint8Array.of(0x11, 1, 0, 1));
    advance(20);
    expect(eventsOf(server, 'request').map(({ streamId }) => streamId)).toEqual([1]);
    expect(server.sent.filter((frame) => frame[0] === 0x15)).toEqual([]);
  });
});
