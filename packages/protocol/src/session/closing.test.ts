import { beforeEach, describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension } from '../base/constants.js';
import { ERROR_CODES, type ErrorCode, ProtocolError } from '../base/errors.js';
import { resolveTimers } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { plainBody } from '../codec/body.js';
import { CloseReason } from '../control/messages.js';
import { LinkKind } from '../link/frame.js';
import {
  createSimulation,
  type End,
  eventsOf,
  type Simulation,
  type SimulationOptions,
  TEST_CAPABILITIES,
} from '../testing/simulation.js';

/** A graceful close: everything that was sent arrives first, even if the connection is lost meanwhile. */

const CAPABILITIES = {
  ...TEST_CAPABILITIES,
  extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' },
};
const TIMERS = resolveTimers({ closingTimeoutMs: 1_000, resumeWindowMs: 10_000 });

function established(options: SimulationOptions = {}): Simulation {
  const common = { capabilities: CAPABILITIES, timers: TIMERS };
  const simulation = createSimulation({
    ...options,
    client: { ...common, ...options.client },
    server: { ...common, ...options.server },
  });
  simulation.advance(100);
  expect([simulation.client.core.state, simulation.server.core.state]).toEqual([
    'established',
    'established',
  ]);
  return simulation;
}

const body = (size = 10) => plainBody(new Uint8Array(size));
const errorOf = (end: End) => eventsOf(end, 'ended').map(({ error }) => error?.code);
const kindsOf = (frames: End['sent']) =>
  frames.map((frame) => {
    const first = typeof frame === 'string' ? -1 : (frame[0] ?? -1);
    return first >> 4 === 1 ? first & 0x0f : 'control';
  });

describe('a session that closes', () => {
  it('waits until everything that it sent is acknowledged, even after the peer has closed', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    server.core.close(CloseReason.NORMAL, '', simulation.now);
    // Both have sent CLOSE, and neither has received an acknowledgement.
    simulation.advance(9);
    expect(client.core.channel.framesUnconfirmed).toBe(1);
    simulation.advance(1);
    expect([client.core.state, server.core.state]).toEqual(['closing', 'closed']);
    simulation.advance(10);
    expect(client.core.state).toBe('closed');
    expect(client.core.channel.framesUnconfirmed).toBe(0);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
  });

  it('acknowledges at once when the peer sends CLOSE', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    const before = server.sent.length;
    simulation.advance(10);
    expect(kindsOf(server.sent.slice(before))).toEqual([LinkKind.ACK, 'control']);
    simulation.advance(10);
    expect(client.core.state).toBe('closed');
  });

  it('acknowledges what it has received before its CLOSE, so that it may go away without an error at the peer', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    server.core.channel.send(body());
    simulation.advance(10);
    const before = client.sent.length;
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(0);
    expect(kindsOf(client.sent.slice(before))).toEqual([LinkKind.ACK, 'control']);
    // Both arrive, and the answer gets no reader any more.
    simulation.advance(10);
    server.core.handleDisconnected(CloseCode.GOING_AWAY, '', simulation.now);
    simulation.advance(0);
    expect(errorOf(server)).toEqual([undefined]);
  });

  it('sends nothing after its CLOSE, and no end for a reply that it cuts short', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    const ids = [
      client.core.channel.request(body()),
      client.core.channel.request(body()),
      client.core.channel.request(body()),
    ];
    simulation.advance(10);
    server.core.channel.chunk(ids[0] as number, body());
    server.core.close(CloseReason.SERVER_SHUTDOWN, '', simulation.now);
    // The handlers continue until they notice.
    server.core.channel.chunk(ids[0] as number, body());
    server.core.channel.end(ids[0] as number);
    simulation.advance(5);
    server.core.channel.respond(ids[1] as number, body());
    server.core.channel.fail(ids[2] as number, new Error('late'));
    simulation.advance(1_000);
    expect(eventsOf(client, 'part')).toHaveLength(1);
    expect([eventsOf(client, 'end'), eventsOf(client, 'response'), eventsOf(client, 'failure')]).toEqual([
      [],
      [],
      [],
    ]);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
  });

  it('answers no cancel after its CLOSE', () => {
    const { client, server, now } = established();
    const id = client.core.channel.request(body(200_000));
    // Only a part of the request has arrived, so the link itself would answer.
    server.core.handleMessage(client.core.pollTransmit() ?? '', now);
    client.core.channel.cancel(id);
    server.core.close(CloseReason.NORMAL, '', now);
    const sent = [server.core.pollTransmit() ?? '', server.core.pollTransmit() ?? ''];
    expect(kindsOf(sent)).toEqual([LinkKind.ACK, 'control']);
    server.core.handleMessage(client.core.pollTransmit() ?? '', now);
    expect(server.core.pollTransmit()).toBeUndefined();
  });
});

describe('a session that closes while streams wait for a peer that does not read them', () => {
  /** A tenth of the closing timeout, and the acknowledgement, which may take 200 ms. */
  const SOON = TIMERS.closingTimeoutMs / 10 + 250;

  const WINDOWS = JSON.stringify({ message_window: 16_384, stream_window: 16_384 });
  const capabilities = {
    ...CAPABILITIES,
    extensions: { ...CAPABILITIES.extensions, [Extension.LINK]: WINDOWS },
  };
  const withWindow = () => established({ delayMs: 10, client: { capabilities }, server: { capabilities } });

  /** A reply of 100 parts, of which the client reads none. */
  function unread() {
    const simulation = withWindow();
    const { client, server } = simulation;
    const streamId = client.core.channel.request(body());
    simulation.advance(10);
    for (let i = 0; i < 100; i++) server.core.channel.chunk(streamId, body(1_000));
    server.core.channel.end(streamId);
    return { simulation, client, server, streamId };
  }

  it.each(['client', 'server'] as const)('ends soon if its %s closes', (closer) => {
    const { simulation, client, server, streamId } = unread();
    simulation.advance(1_000);
    expect(server.core.isBlockedOnCredit).toBe(true);
    simulation[closer].core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(SOON);
    expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
    const parts = eventsOf(client, 'part').length;
    expect(parts).toBeGreaterThan(0);
    // The end of the reply was not sent, so it does not look complete.
    expect(eventsOf(client, 'end')).toEqual([]);
    const { notSent, unknown } = server.core.unconfirmed();
    expect([notSent.length, unknown]).toEqual([100 - parts, []]);
    expect(notSent[0]).toEqual({ kind: 'reply', streamId });
  });

  it('sends the rest to a peer that reads, however slowly, if it never pauses for so long', () => {
    const { simulation, client, server, streamId } = unread();
    server.core.close(CloseReason.NORMAL, '', simulation.now);
    let read = 0;
    for (let round = 0; round < 50 && server.core.state === 'closing'; round++) {
      const received = eventsOf(client, 'part');
      for (const { body: part } of received.slice(read, read + 10))
        client.core.channel.consume(streamId, part.charge);
      read = Math.min(received.length, read + 10);
      simulation.advance(TIMERS.closingTimeoutMs / 10 - 25);
    }
    expect([eventsOf(client, 'part').length, eventsOf(client, 'end').length]).toEqual([100, 1]);
    expect(errorOf(server)).toEqual([undefined]);
  });

  it('waits for messages as long as ever, and for streams beside them', () => {
    const { simulation, client, server } = unread();
    for (let i = 0; i < 2_000; i++) server.core.channel.send(body(1_000));
    simulation.advance(300);
    server.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(TIMERS.closingTimeoutMs - 1);
    expect([server.core.state, client.core.state]).toEqual(['closing', 'established']);
    simulation.advance(1);
    expect(errorOf(server)).toEqual(['timeout']);
  });

  it('cuts a request short of which a part has arrived', () => {
    const simulation = withWindow();
    const { client, server } = simulation;
    server.core.channel.holdCredit(true);
    const streamId = client.core.channel.request(body(200_000));
    simulation.advance(300);
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(SOON);
    expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
    expect(eventsOf(server, 'request')).toEqual([]);
    expect(client.core.unconfirmed()).toEqual({ notSent: [{ kind: 'request', streamId }], unknown: [] });
  });

  it('waits as long again after a lost connection, since the credit that the peer granted may be lost with it', () => {
    const { simulation, client, server, streamId } = unread();
    simulation.advance(300);
    server.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(TIMERS.closingTimeoutMs / 10 - 5);
    for (const { body: part } of eventsOf(client, 'part')) client.core.channel.consume(streamId, part.charge);
    const before = eventsOf(client, 'part').length;
    simulation.cut();
    simulation.reconnect();
    simulation.advance(50);
    expect(eventsOf(client, 'part').length).toBeGreaterThan(before);
    simulation.advance(TIMERS.closingTimeoutMs);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
  });
});

describe('the statement of an application with its close', () => {
  it('reaches the other end, which knows who has closed', () => {
    const simulation = established();
    const { client, server } = simulation;
    server.core.close(CloseReason.NORMAL, 'spam', 0, 'kicked');
    simulation.settle();
    const said = { code: 'kicked', reason: 'spam' };
    expect(client.core.closeStatement).toEqual({ side: 'remote', ...said });
    expect(server.core.closeStatement).toEqual({ side: 'local', ...said });
  });

  it('is not replaced by a later call', () => {
    const simulation = established();
    const { client, server } = simulation;
    server.core.close(CloseReason.NORMAL, 'spam', 0, 'kicked');
    server.core.close(CloseReason.SERVER_SHUTDOWN, 'the server closes', 0);
    simulation.settle();
    expect(client.core.closeStatement).toEqual({ side: 'remote', code: 'kicked', reason: 'spam' });
  });

  it('counts before the close of an end that gives no code, and not before one that does', () => {
    for (const own of [undefined, 'bye']) {
      const simulation = established({ delayMs: 10 });
      const { client, server } = simulation;
      client.core.close(CloseReason.CLIENT_SHUTDOWN, '', 0, own);
      server.core.close(CloseReason.NORMAL, '', 0, 'kicked');
      simulation.advance(100);
      expect(client.core.closeStatement).toEqual(
        own === undefined
          ? { side: 'remote', code: 'kicked', reason: '' }
          : { side: 'local', code: 'bye', reason: '' },
      );
      expect(server.core.closeStatement).toMatchObject({ side: 'local', code: 'kicked' });
    }
  });

  it('is sent again over the next connection', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    server.core.close(CloseReason.NORMAL, 'spam', 0, 'kicked');
    simulation.advance(5);
    simulation.cut();
    simulation.reconnect();
    simulation.advance(100);
    expect(client.core.closeStatement).toEqual({ side: 'remote', code: 'kicked', reason: 'spam' });
  });
});

describe('a connection that is lost while closing', () => {
  let simulation: Simulation;
  let client: End;
  let server: End;
  beforeEach(() => {
    simulation = established({ delayMs: 10 });
    ({ client, server } = simulation);
  });

  const expectOrderlyEnd = (messages: number, closer: End) => {
    simulation.advance(100);
    expect(eventsOf(server, 'message')).toHaveLength(messages);
    expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
    expect([client.core.channel.framesUnconfirmed, server.core.channel.framesUnconfirmed]).toEqual([0, 0]);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
    // The end that began leaves; the other would have waited for it to come back.
    const left = [client, server].filter((end) => end.closedWith?.code === CloseCode.NORMAL);
    expect(left).toEqual([closer]);
  };

  it.each([
    ['before CLOSE has arrived', 5],
    ['before the answer has arrived', 15],
  ])('%s is replaced, and everything that was sent arrives', (_when, delayMs) => {
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(delayMs);
    simulation.cut();
    expect(client.core.state).toBe('closing');
    simulation.advance(50);
    simulation.reconnect();
    expectOrderlyEnd(1, client);
  });

  it('by the server is replaced as well', () => {
    server.core.channel.send(body());
    server.core.close(CloseReason.SERVER_SHUTDOWN, '', simulation.now);
    simulation.advance(5);
    simulation.cut();
    expect([client.core.state, server.core.state]).toEqual(['suspended', 'closing']);
    simulation.reconnect();
    expectOrderlyEnd(0, server);
    expect(eventsOf(client, 'message')).toHaveLength(1);
  });

  it('by a server that drains comes after GOAWAY, so that the client begins another session', () => {
    server.core.sendGoAway({ retryAfterMs: 7, deadline: 30_000 }, simulation.now);
    server.core.close(CloseReason.SERVER_SHUTDOWN, '', simulation.now);
    simulation.advance(5);
    simulation.cut();
    expect(eventsOf(client, 'goaway')).toEqual([]);
    simulation.reconnect();
    expectOrderlyEnd(0, server);
    expect(eventsOf(client, 'goaway')).toMatchObject([{ retryAfterMs: 7 }]);
  });

  it('may be lost again, even before the session is resumed', () => {
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(5);
    for (const delayMs of [0, 5, 15, 25]) {
      simulation.cut();
      simulation.reconnect();
      simulation.advance(delayMs);
    }
    expectOrderlyEnd(1, client);
  });

  it('is followed by nothing but HELLO until the session is resumed', () => {
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.cut();
    const before = client.sent.length;
    simulation.reconnect();
    expect(kindsOf(client.sent.slice(before))).toEqual(['control']);
    simulation.advance(10);
    expect(kindsOf(client.sent.slice(before))).toEqual(['control']);
  });

  it('ends the session at the closing timeout, and reports what was not delivered', () => {
    client.core.channel.send(body());
    simulation.settle();
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.cut();
    simulation.advance(999);
    expect(client.core.state).toBe('closing');
    simulation.advance(1);
    expect(client.core.state).toBe('closed');
    expect(errorOf(client)).toEqual(['session_lost']);
    const message = { kind: 'message', streamId: 0 };
    expect(client.core.unconfirmed()).toEqual({ notSent: [message], unknown: [message] });
  });

  it('ends the session if the server has forgotten it, and begins no other', () => {
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.cut();
    server.core.handleTimeout(simulation.now + TIMERS.resumeWindowMs);
    expect(server.core.state).toBe('closed');
    simulation.reconnect();
    simulation.advance(20);
    expect(eventsOf(client, 'superseded')).toEqual([]);
    expect(errorOf(client)).toEqual(['session_lost']);
    expect(client.closedWith?.code).toBe(CloseCode.NORMAL);
  });

  it('ends the session without an error if the peer has sent CLOSE and received everything', () => {
    server.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(10);
    // The client's answer is on its way, and the server has left for good.
    expect(client.core.state).toBe('closing');
    client.core.handleDisconnected(CloseCode.NORMAL, '', simulation.now);
    expect(client.core.state).toBe('closed');
    simulation.settle();
    expect(errorOf(client)).toEqual([undefined]);
  });
});

describe('a page that closes its session while it is being left', () => {
  it.each([
    [CloseCode.GOING_AWAY, 'closed'],
    [CloseCode.ABNORMAL, 'closing'],
  ])('is not waited for after close code %i', (code, state) => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    client.core.close(CloseReason.CLIENT_SHUTDOWN, '', simulation.now);
    simulation.advance(15);
    expect(server.core.state).toBe('closing');
    server.core.handleDisconnected(code, '', simulation.now);
    expect(server.core.state).toBe(state);
  });

  it('is lost with what it has not acknowledged, and comes back if it has not closed', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    client.core.close(CloseReason.CLIENT_SHUTDOWN, '', simulation.now);
    server.core.channel.send(body());
    simulation.advance(15);
    server.core.handleDisconnected(CloseCode.GOING_AWAY, '', simulation.now);
    simulation.advance(1);
    expect(errorOf(server)).toEqual(['session_lost']);
    const open = established();
    open.server.core.handleDisconnected(CloseCode.GOING_AWAY, '', 0);
    expect(open.server.core.state).toBe('suspended');
  });
});

describe('a body that was never sent', () => {
  const message = { kind: 'message', streamId: 0 };

  it('is also reported for a session that failed', () => {
    const { client, server, settle, now } = established({ delayMs: 10 });
    client.core.channel.send(body());
    settle();
    client.core.channel.send(body());
    client.core.abort(new ProtocolError('internal', 'a fault'), now);
    expect(client.core.unconfirmed()).toEqual({ notSent: [message], unknown: [message] });
    expect(server.core.unconfirmed()).toEqual({ notSent: [], unknown: [] });
  });

  it('is also reported without a link', () => {
    const { client, now } = established({
      client: { capabilities: { ...TEST_CAPABILITIES, extensions: {} } },
    });
    client.core.channel.send(plainBody(encodeUtf8('text')));
    expect(client.core.unconfirmed().notSent).toEqual([message]);
    client.core.abort(new ProtocolError('internal', 'a fault'), now);
    expect(client.core.unconfirmed().notSent).toEqual([message]);
  });

  it('may be a tensor that is cut short when the peer closes', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    const streamId = client.core.channel.transfer({
      payloadSize: 10,
      totalLength: 10,
      first: new Uint8Array(4),
    });
    simulation.advance(20);
    server.core.close(CloseReason.SERVER_SHUTDOWN, '', simulation.now);
    simulation.advance(100);
    expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
    expect(client.core.unconfirmed()).toEqual({ notSent: [{ kind: 'request', streamId }], unknown: [] });
  });
});

describe('a suspended session that closes', () => {
  it('is resumed once more to deliver what waits', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    simulation.cut();
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    expect(client.core.state).toBe('closing');
    simulation.reconnect();
    simulation.advance(100);
    expect(eventsOf(server, 'message')).toHaveLength(1);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
  });

  it('ends with its window if that is sooner than its closing timeout', () => {
    const simulation = established({ server: { timers: { ...TIMERS, resumeWindowMs: 300 } } });
    simulation.cut();
    simulation.client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.advance(299);
    expect(simulation.client.core.state).toBe('closing');
    simulation.advance(1);
    expect(simulation.client.core.state).toBe('closed');
  });

  it('has its whole closing timeout if it is resumed before its window ends', () => {
    const simulation = established({ delayMs: 50 });
    const { client, server } = simulation;
    simulation.cut();
    simulation.advance(TIMERS.resumeWindowMs - 120);
    client.core.channel.send(body());
    client.core.close(CloseReason.NORMAL, '', simulation.now);
    simulation.reconnect();
    simulation.advance(1_000);
    expect(eventsOf(server, 'message')).toHaveLength(1);
    expect([errorOf(client), errorOf(server)]).toEqual([[undefined], [undefined]]);
  });
});

describe('close code 1000 is for a session that ended as agreed', () => {
  const codes = Object.keys(ERROR_CODES) as ErrorCode[];

  it.each(codes)('and not for one that was aborted with %s', (code) => {
    const { client, settle, now } = established();
    client.core.abort(new ProtocolError(code, 'a fault'), now);
    settle();
    expect(client.closedWith?.code).toBeGreaterThanOrEqual(4400);
    expect(eventsOf(client, 'ended')).toMatchObject([
      { error: { code, closeCode: client.closedWith?.code } },
    ]);
  });
});
