import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { type Limits, resolveLimits } from '../base/limits.js';
import { plainBody } from '../codec/body.js';
import { encodeControl } from '../control/envelope.js';
import { decodeFailure } from '../link/failure.js';
import { decodeLinkFrame, encodeBodyFrame, LinkKind } from '../link/frame.js';
import { Outbox } from '../link/outbox.js';
import { Pacing } from '../link/pacing.js';
import { createSimulation, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import type { SessionEvent, SessionOptions } from './types.js';

/** Rate limits between two ends, in virtual time: the sender waits; the receiver tolerates bursts, then acts. */

const KIB = 1024;
const BODY = plainBody(new Uint8Array(8));

function simulate(limits: Partial<Limits>, both: Partial<SessionOptions> = {}) {
  const simulation = createSimulation({
    client: both,
    server: { ...both, limits: resolveLimits(limits) },
  });
  simulation.settle();
  return simulation;
}

describe('a client', () => {
  it.each([
    ['over the link', {}],
    ['bare', { capabilities: { ...TEST_CAPABILITIES, extensions: {} } }],
    ['in JSON', { subprotocol: Subprotocol.JSON }],
  ])('sends the announced number of messages and then waits for the rate, %s', (_where, both) => {
    const { client, server, settle, advance } = simulate({ messagesPerMinute: 60 }, both);
    for (let i = 0; i < 63; i++) client.core.channel.send(BODY);
    settle();
    expect(eventsOf(server, 'message')).toHaveLength(60);
    expect(client.core.isPaced).toBe(true);
    advance(999);
    expect(eventsOf(server, 'message')).toHaveLength(60);
    advance(1);
    expect(eventsOf(server, 'message')).toHaveLength(61);
    advance(2_000);
    expect(eventsOf(server, 'message')).toHaveLength(63);
    expect(client.core.isPaced).toBe(false);
  });

  it('counts requests like messages, but not fragments, cancels or replies', () => {
    const { client, server, settle } = simulate({ messagesPerMinute: 4 });
    client.core.channel.send(plainBody(new Uint8Array(300 * KIB)));
    const ids = [client.core.channel.request(BODY), client.core.channel.request(BODY)];
    settle();
    for (const id of ids) client.core.channel.cancel(id);
    const [asked] = [server.core.channel.request(BODY)];
    settle();
    for (let i = 0; i < 10; i++) client.core.channel.chunk(asked as number, BODY);
    client.core.channel.end(asked as number);
    client.core.channel.send(BODY);
    client.core.channel.send(BODY);
    settle();
    expect(eventsOf(server, 'request')).toHaveLength(2);
    expect(eventsOf(server, 'part')).toHaveLength(10);
    expect(eventsOf(server, 'end')).toHaveLength(1);
    expect(eventsOf(server, 'message')).toHaveLength(2);
    expect(client.core.isPaced).toBe(true);
  });

  it('never sends a request that was cancelled while it waited', () => {
    const { client, server, settle, advance } = simulate({ messagesPerMinute: 1 });
    client.core.channel.send(BODY);
    const id = client.core.channel.request(BODY);
    settle();
    client.core.channel.cancel(id);
    advance(180_000);
    expect(eventsOf(server, 'request')).toEqual([]);
    expect([client.core.channel.openStreams, client.core.queuedBytes, client.core.isPaced]).toEqual([
      0,
      0,
      false,
    ]);
  });

  it('that has to wait is told so, and so is its server, once a minute while it lasts', () => {
    const simulation = simulate({ messagesPerMinute: 60 });
    const { client, server, settle, advance } = simulation;
    const told = () => [client, server].map((end) => eventsOf(end, 'throttled').length);
    const isPaced = () => server.core.isPeerPaced(simulation.now);
    for (let i = 0; i < 60; i++) client.core.channel.send(BODY);
    settle();
    expect([told(), isPaced()]).toEqual([[0, 0], true]);
    for (let i = 0; i < 121; i++) client.core.channel.send(BODY);
    settle();
    // The server notices when something that has waited arrives.
    expect(told()).toEqual([1, 0]);
    advance(1_000);
    expect(told()).toEqual([1, 1]);
    expect(eventsOf(server, 'throttled').map(({ throttled }) => throttled)).toEqual([
      { limit: 'messagesPerMinute', rate: 60 },
    ]);
    advance(58_000);
    expect([told(), isPaced()]).toEqual([[1, 1], true]);
    advance(2_000);
    expect(told()).toEqual([2, 2]);
    advance(60_000);
    expect(eventsOf(server, 'message')).toHaveLength(181);
    advance(1_000);
    expect([told()[1], isPaced(), client.core.isPaced]).toEqual([3, false, false]);
  });

  it('that has to wait for bytes is told so, and so is its server', () => {
    const { client, server, settle, advance } = simulate({ bytesPerSecond: 64 * KIB });
    for (let i = 0; i < 10; i++) client.core.channel.send(plainBody(new Uint8Array(32 * KIB)));
    settle();
    for (let i = 0; i < 6; i++) {
      for (const { body } of eventsOf(server, 'message').slice(i))
        server.core.channel.consume(0, body.charge);
      advance(1_000);
    }
    const event = { type: 'throttled', throttled: { limit: 'bytesPerSecond', rate: 64 * KIB } };
    expect([eventsOf(client, 'throttled'), eventsOf(server, 'throttled')]).toEqual([[event], [event]]);
  });

  it('that stays below its rate is never told anything, however unevenly its messages arrive', () => {
    const { client, server, settle, advance } = simulate({ messagesPerMinute: 60 });
    for (let minute = 0; minute < 5; minute++) {
      // Its PINGs, and its answers to those of the server, count as well.
      for (let i = 0; i < 53; i++) client.core.channel.send(BODY);
      settle();
      advance(60_000);
    }
    expect([client, server].map((end) => eventsOf(end, 'throttled'))).toEqual([[], []]);
  });

  it('sends CLOSE after what waits, if there is time for it', () => {
    const { client, server, settle, advance, now } = simulate({ messagesPerMinute: 60 });
    for (let i = 0; i < 62; i++) client.core.channel.send(BODY);
    settle();
    client.core.close('CLIENT_SHUTDOWN', '', now);
    advance(1_000);
    expect(client.core.state).toBe('closing');
    advance(1_000);
    expect(eventsOf(server, 'message')).toHaveLength(62);
    expect(eventsOf(client, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
  });

  it('keeps to the announced bytes per second', () => {
    const { client, server, settle, advance } = simulate({ bytesPerSecond: 64 * KIB });
    for (let i = 0; i < 10; i++) client.core.channel.send(plainBody(new Uint8Array(32 * KIB)));
    settle();
    // A burst of one second, and the frame that uses it up.
    expect(eventsOf(server, 'message').length).toBeLessThanOrEqual(3);
    for (const { body } of eventsOf(server, 'message')) server.core.channel.consume(0, body.charge);
    const early = eventsOf(server, 'message').length;
    advance(2_000);
    expect(eventsOf(server, 'message').length - early).toBeLessThanOrEqual(4);
    expect(eventsOf(server, 'message').length - early).toBeGreaterThanOrEqual(3);
    advance(4_000);
    expect(eventsOf(server, 'message')).toHaveLength(10);
  });

  it('lets no request overtake another that waits for the rate: stream IDs only grow', () => {
    const outbox = new Outbox();
    outbox.pace = new Pacing({ messagesPerMinute: 60 });
    let streamId = -1;
    const ask = (count: number) => {
      for (let i = 0; i < count; i++) {
        streamId += 2;
        outbox.pushBody({ ...BODY, kind: LinkKind.REQUEST, streamId });
      }
    };
    const written: number[] = [];
    const drain = (now: number) => {
      for (let frame = outbox.next(now); frame !== undefined; frame = outbox.next(now))
        written.push(decodeLinkFrame(frame as Uint8Array).streamId);
    };
    ask(62);
    drain(0);
    expect(written).toHaveLength(60);
    for (let now = 1_000; written.length < 64; now += 1_000) {
      if (streamId < 127) ask(1);
      drain(now);
    }
    expect(written).toEqual(Array.from({ length: 64 }, (_, i) => 2 * i + 1));
  });

  it('writes frames of a lost connection again at once, and then new ones at the rate', () => {
    const outbox = new Outbox();
    outbox.retain = true;
    outbox.pace = new Pacing({ messagesPerMinute: 60 });
    const drain = (now: number) => {
      let frames = 0;
      while (outbox.next(now) !== undefined) frames++;
      return frames;
    };
    const send = (count: number) => {
      for (let i = 0; i < count; i++) outbox.pushBody({ ...BODY, kind: LinkKind.MESSAGE, streamId: 0 });
    };
    send(60);
    expect(drain(0)).toBe(60);
    outbox.pause();
    send(10);
    outbox.replayFrom(20);
    expect(drain(20_000)).toBe(40);
    expect(outbox.isPaced).toBe(true);
    expect(drain(40_999)).toBe(0);
    expect(drain(41_000)).toBe(1);
    expect(drain(50_000)).toBe(9);
  });
});

/** A server whose client ignores the rates: frames in, events and frames out. */
function besiege(limits: Partial<Limits>) {
  const { server } = simulate(limits, {
    capabilities: { ...TEST_CAPABILITIES, extensions: { [Extension.LINK]: '{"message_window":16384}' } },
  });
  const { core } = server;
  const events: SessionEvent[] = [];
  const sent: Uint8Array[] = [];
  let next = 1;
  const poll = () => {
    for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
      events.push(event);
      if (event.type === 'message') core.channel.consume(0, event.body.charge);
      if (event.type === 'request') core.channel.end(event.streamId);
    }
    for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
      sent.push(frame as Uint8Array);
  };
  return {
    core,
    of: (type: SessionEvent['type']) => events.filter((event) => event.type === type),
    /** Frames of a kind that the server has written. */
    written: (kind: LinkKind) => sent.filter((frame) => frame[0] === (0x10 | kind)),
    requests(count: number, now = 0) {
      for (let i = 0; i < count; i++, next += 2) {
        core.handleMessage(
          encodeBodyFrame({ ...BODY, kind: LinkKind.REQUEST, streamId: next }, 0, BODY.bytes.length),
          now,
        );
        poll();
      }
    },
    messages(count: number, now = 0, bytes = BODY.bytes) {
      const body = { ...BODY, bytes, kind: LinkKind.MESSAGE, streamId: 0 };
      for (let i = 0; i < count; i++) {
        core.handleMessage(encodeBodyFrame(body, 0, bytes.length), now);
        poll();
      }
    },
    pass(now: number) {
      core.handleTimeout(now);
      poll();
    },
    closedWith: () => events.find((event) => event.type === 'disconnect'),
  };
}

describe('a server', () => {
  it('accepts 2 n requests at once, refuses request 2 n + 1 with a delay, and closes on 3 n + 1', () => {
    const server = besiege({ messagesPerMinute: 20 });
    server.requests(40);
    expect(server.of('request')).toHaveLength(40);
    server.requests(1);
    expect(server.of('request')).toHaveLength(40);
    const [failure] = server.written(LinkKind.ERROR);
    expect(decodeFailure(decodeLinkFrame(failure as Uint8Array).rest, 8)).toMatchObject({
      code: 'rate_limited',
      retryable: true,
      retryAfterMs: 6_000,
    });
    server.requests(19);
    expect(server.core.state).toBe('established');
    server.requests(1);
    expect(server.closedWith()).toMatchObject({
      closeCode: CloseCode.RATE_LIMITED,
      reason: expect.stringMatching(/^rate_limited: /),
    });
  });

  it('accepts a request after the stated delay, and frees the slots of refused ones', () => {
    const server = besiege({ messagesPerMinute: 20, maxStreams: 2 });
    server.requests(45);
    expect(server.core.channel.openStreams).toBe(0);
    server.requests(1, 18_000);
    expect(server.of('request')).toHaveLength(41);
  });

  it('delivers messages beyond the rate and grants no credit until the rate is kept again', () => {
    const server = besiege({ messagesPerMinute: 20 });
    server.messages(40, 0, new Uint8Array(400));
    const granted = server.written(LinkKind.CREDIT).length;
    expect(granted).toBeGreaterThan(0);
    server.messages(10, 0, new Uint8Array(2_000));
    expect(server.of('message')).toHaveLength(50);
    expect(server.written(LinkKind.CREDIT)).toHaveLength(granted);
    // Ten to pay the debt, and one for the next message.
    expect(server.core.nextTimeout()).toBeLessThanOrEqual(33_000);
    server.pass(32_999);
    expect(server.written(LinkKind.CREDIT)).toHaveLength(granted);
    server.pass(33_000);
    expect(server.written(LinkKind.CREDIT)).toHaveLength(granted + 1);
    expect(server.core.state).toBe('established');
  });

  it('holds credit back for bytes beyond the rate, and closes only for frames that need no credit', () => {
    const server = besiege({ bytesPerSecond: 10_000, sessionWindow: 64 * KIB });
    const large = new Uint8Array(8_000);
    server.messages(2, 0, large);
    const granted = server.written(LinkKind.CREDIT).length;
    server.messages(3, 0, large);
    expect(server.written(LinkKind.CREDIT)).toHaveLength(granted);
    server.pass(2_500);
    expect(server.written(LinkKind.CREDIT).length).toBeGreaterThan(granted);
    const ping = encodeControl({ type: 'PING', sessionId: 'sess_test', timestamp: 1, payload: {} });
    for (let i = 0; i < 60_000 && server.closedWith() === undefined; i++) {
      server.core.handleMessage(ping, 2_500);
      server.pass(2_500);
    }
    expect(server.closedWith()).toMatchObject({ closeCode: CloseCode.RATE_LIMITED });
  });

  it('has no rate if it is Infinity, and announces none', () => {
    const server = besiege({ messagesPerMinute: Infinity, bytesPerSecond: Infinity });
    server.requests(5_000);
    expect(server.of('request')).toHaveLength(5_000);
    expect(server.core.negotiated?.limits).not.toHaveProperty('messagesPerMinute');
    expect(server.core.negotiated?.limits).not.toHaveProperty('bytesPerSecond');
  });
});
