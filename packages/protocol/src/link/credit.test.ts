import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteReader } from '../base/bytes.js';
import { CloseCode } from '../base/close-codes.js';
import { Extension } from '../base/constants.js';
import { resolveLimits } from '../base/limits.js';
import { plainBody } from '../codec/body.js';
import { createSimulation, type End, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import { BODY_CHARGE, ReceiveCredit } from './credit.js';
import { decodeLinkFrame, LinkKind } from './frame.js';

const KIB = 1024;
const WINDOW = { message_window: 128 * KIB, stream_window: 16 * KIB };
const LIMITS = resolveLimits({
  sessionWindow: 512 * KIB,
  streamWindow: 128 * KIB,
  maxStreams: 16,
  maxMessageSize: 1024 * KIB,
});

function simulate() {
  const capabilities = { ...TEST_CAPABILITIES, extensions: { [Extension.LINK]: JSON.stringify(WINDOW) } };
  const simulation = createSimulation({
    client: { capabilities, limits: LIMITS },
    server: { capabilities, limits: LIMITS },
  });
  simulation.settle();
  return simulation;
}

/** Charges of the bodies that have arrived at `end` and were not read. */
function unread(end: End, taken: ReadonlySet<object>): number {
  return end.events.reduce(
    (sum, event) => ('body' in event && !taken.has(event) ? sum + event.body.charge : sum),
    0,
  );
}

/** Records the stream and limit of credit frames. */
function recorder() {
  const sent: [number, number][] = [];
  const pushUncounted = (bytes: Uint8Array) => {
    const { kind, streamId, rest } = decodeLinkFrame(bytes);
    expect(kind).toBe(LinkKind.CREDIT);
    sent.push([streamId, new ByteReader(rest).varint('the credit limit')]);
  };
  return { sent, outbox: { pushUncounted } };
}

describe('credit of a stream that is over', () => {
  const LARGE = 256 * KIB;
  /** Answers of `LARGE` bytes; the limits let a few of them wait. */
  function answered(relayed: boolean, count: number) {
    const bench = simulate();
    const { client, server, settle } = bench;
    for (let i = 0; i < count; i++) client.core.channel.request({ ...plainBody(new Uint8Array(1)), relayed });
    settle();
    for (const { streamId } of eventsOf(server, 'request'))
      server.core.channel.respond(streamId, plainBody(new Uint8Array(LARGE)));
    settle();
    return bench;
  }

  it('is returned with the stream, or if the answer is relayed, as it is consumed', () => {
    expect(eventsOf(answered(false, 12).client, 'response')).toHaveLength(12);
    const { client, settle } = answered(true, 12);
    const arrived = () => eventsOf(client, 'response');
    const before = arrived().length;
    // As many as the limit of unread messages allows, and the one that exceeds it.
    expect(before).toBe(Math.ceil(LIMITS.maxMessageSize / (LARGE - WINDOW.stream_window)));
    for (let i = 0; i < 12; i++) {
      const { streamId, body } = arrived()[i] as ReturnType<typeof arrived>[number];
      client.core.channel.consume(streamId, body.charge - 1);
      settle();
      client.core.channel.consume(streamId, 1);
      settle();
    }
    expect(arrived()).toHaveLength(12);
  });

  it('is completely restored when parts were consumed late or never arrived completely', () => {
    const { client, server, settle } = simulate();
    const taken = new Set<object>();
    for (let round = 0; round < 40; round++) {
      const id = client.core.channel.request({ ...plainBody(new Uint8Array(1)), relayed: true });
      settle();
      server.core.channel.chunk(id, plainBody(new Uint8Array(8 * KIB)));
      if (round % 2 === 0) server.core.channel.end(id);
      // Cut off in the middle, as it waits for credit.
      else server.core.channel.chunk(id, plainBody(new Uint8Array(64 * KIB)));
      settle();
      if (round % 2 === 1) client.core.channel.cancel(id);
      settle();
      if (round % 2 === 1) server.core.channel.end(id);
      settle();
      for (const event of eventsOf(client, 'part')) {
        if (taken.has(event)) continue;
        taken.add(event);
        client.core.channel.consume(event.streamId, event.body.charge);
      }
      settle();
    }
    expect(client.core.channel.openStreams).toBe(0);
    const id = client.core.channel.request({ ...plainBody(new Uint8Array(1)), relayed: true });
    settle();
    server.core.channel.respond(id, plainBody(new Uint8Array(LIMITS.maxMessageSize)));
    settle();
    expect(eventsOf(client, 'response')).toHaveLength(1);
  });
});

describe('credit', () => {
  it('holds a sender back until its reader reads', () => {
    const { client, server, settle } = simulate();
    for (let i = 0; i < 100; i++) client.core.channel.send(plainBody(new Uint8Array(10 * KIB)));
    settle();
    const arrived = eventsOf(server, 'message');
    expect(unread(server, new Set())).toBeLessThanOrEqual(WINDOW.message_window);
    expect(client.core.isBlockedOnCredit).toBe(true);
    for (let i = 0; i < arrived.length; i++) server.core.channel.consume(0, arrived[i]?.body.charge ?? 0);
    settle();
    for (let i = arrived.length; i < 100; i++) {
      server.core.channel.consume(0, eventsOf(server, 'message')[i]?.body.charge ?? 0);
      settle();
    }
    expect(eventsOf(server, 'message')).toHaveLength(100);
    expect(client.core.isBlockedOnCredit).toBe(false);
  });

  it('lets a message through that is larger than its window, up to the message limit', () => {
    const { client, server, settle } = simulate();
    client.core.channel.send(plainBody(new Uint8Array(LIMITS.maxMessageSize)));
    const id = client.core.channel.request(plainBody(new Uint8Array(LIMITS.maxMessageSize)));
    settle();
    expect(eventsOf(server, 'message')[0]?.body.bytes.length).toBe(LIMITS.maxMessageSize);
    expect(eventsOf(server, 'request')[0]?.streamId).toBe(id);
  });

  it('ends the session of a sender that exceeds it', () => {
    const { server, settle, inject } = simulate();
    for (let i = 0; i < 3; i++) {
      const frame = new Uint8Array(60 * KIB);
      frame.set([0x10, 0, 0]);
      inject('client', frame);
    }
    settle();
    expect(server.closedWith?.code).toBe(CloseCode.TOO_LARGE);
    expect(server.closedWith?.reason).toMatch(/^window_exceeded/);
  });

  /** A server whose client is the test, which writes bodies of any charge. */
  const alone = () => {
    const { core } = simulate().server;
    return {
      core,
      send(kind: LinkKind, streamId: number, charge: number) {
        const frame = new Uint8Array(3 + charge - BODY_CHARGE);
        frame.set([0x10 | kind, streamId, 0]);
        core.handleMessage(frame, 0);
        return core.lifecycle;
      },
      /** The limits that were granted for stream 0. */
      granted() {
        const limits: number[] = [];
        for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit()) {
          if (typeof frame === 'string' || frame[0] !== (0x10 | LinkKind.CREDIT)) continue;
          limits.push(new ByteReader(decodeLinkFrame(frame).rest).varint('the credit limit'));
        }
        return limits;
      },
    };
  };

  it.each([
    ['messages', LinkKind.MESSAGE, 0, WINDOW.message_window],
    ['a request', LinkKind.REQUEST, 1, WINDOW.stream_window],
  ] as const)('for %s is enforced to the byte', (_what, kind, streamId, window) => {
    expect(alone().send(kind, streamId, window)).toBe('established');
    expect(alone().send(kind, streamId, window + 1)).toBe('failed');
  });

  it('is enforced to the byte for empty messages too', () => {
    const send = (charge: number) => {
      const server = alone();
      server.send(LinkKind.MESSAGE, 0, charge);
      return server.send(LinkKind.MESSAGE, 0, BODY_CHARGE);
    };
    expect(send(WINDOW.message_window - BODY_CHARGE)).toBe('established');
    expect(send(WINDOW.message_window - BODY_CHARGE + 1)).toBe('failed');
  });

  it('that was granted later is enforced to the byte', () => {
    const send = (excess: number) => {
      const server = alone();
      const { message_window: window } = WINDOW;
      server.send(LinkKind.MESSAGE, 0, window);
      server.core.channel.consume(0, window);
      const [limit = 0] = server.granted();
      expect(limit).toBeGreaterThan(window);
      return server.send(LinkKind.MESSAGE, 0, limit - window + excess);
    };
    expect(send(0)).toBe('established');
    expect(send(1)).toBe('failed');
  });

  it('is returned when a stream is cancelled, and its slot is free again', () => {
    const { client, server, settle } = simulate();
    for (let round = 0; round < 100; round++) {
      const id = client.core.channel.request(plainBody(new Uint8Array(10)));
      settle();
      for (let i = 0; i < 5; i++) server.core.channel.chunk(id, plainBody(new Uint8Array(10 * KIB)));
      settle();
      client.core.channel.cancel(id);
      settle();
      server.core.channel.end(id);
      settle();
    }
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
    expect([client.core.queuedBytes, server.core.queuedBytes]).toEqual([0, 0]);
    expect(client.core.state).toBe('established');
  });

  it('never deadlocks and bounds memory, for any set of stalled streams', () => {
    const message = fc.record({
      size: fc.oneof(fc.nat(40 * KIB), fc.nat(LIMITS.maxMessageSize)),
      stream: fc.nat(7),
    });
    fc.assert(
      fc.property(
        fc.array(message, { minLength: 1, maxLength: 40 }),
        fc.uniqueArray(fc.nat(7)),
        (messages, stalled) => {
          const { client, server, settle } = simulate();
          // Streams 1 to 7 are replies of the server, 0 are its one-way messages.
          const ids = Array.from({ length: 7 }, () =>
            client.core.channel.request(plainBody(new Uint8Array(1))),
          );
          settle();
          const expected = new Map<number, number>();
          for (const { size, stream } of messages) {
            const body = plainBody(new Uint8Array(size));
            const id = stream === 0 ? 0 : (ids[stream - 1] as number);
            if (stream === 0) server.core.channel.send(body);
            else server.core.channel.chunk(id, body);
            expected.set(stream, (expected.get(stream) ?? 0) + 1);
          }
          const taken = new Set<object>();
          let peak = 0;
          for (let progress = true; progress; ) {
            settle();
            peak = Math.max(peak, unread(client, taken));
            progress = false;
            for (const event of client.events) {
              if ((event.type !== 'message' && event.type !== 'part') || taken.has(event)) continue;
              const id = event.type === 'message' ? 0 : event.streamId;
              if (stalled.includes(id === 0 ? 0 : ids.indexOf(id) + 1)) continue;
              taken.add(event);
              client.core.channel.consume(id, event.body.charge);
              progress = true;
              break;
            }
          }
          const bound = LIMITS.sessionWindow + 2 * LIMITS.maxMessageSize + 8 * BODY_CHARGE;
          expect(peak).toBeLessThanOrEqual(bound);
          const stalledBytes = messages
            .filter(({ stream }) => stalled.includes(stream))
            .reduce((sum, { size }) => sum + size, 0);
          for (const [stream, count] of expected) {
            if (stalled.includes(stream)) continue;
            const id = stream === 0 ? 0 : ids[stream - 1];
            const arrived = client.events.filter((event) =>
              id === 0 ? event.type === 'message' : event.type === 'part' && event.streamId === id,
            );
            // Large messages wait only while a message limit's worth of others is unread.
            if (stalledBytes < LIMITS.maxMessageSize) expect(arrived).toHaveLength(count);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it('can be sent again, which changes nothing', () => {
    const { sent, outbox } = recorder();
    const credit = new ReceiveCredit(
      {
        initial: { messages: 100, stream: 10 },
        maxShare: 1000,
        pool: 50,
        maxOverrun: 1000,
      },
      outbox,
    );
    credit.receive(3, 10, 0);
    expect(credit.consume(3, 10)).toBe(true);
    const before = [...sent];
    expect(before).toHaveLength(1);
    credit.resend();
    expect(sent.slice(before.length)).toEqual(before);
    credit.close(3);
    expect(credit.consume(3, 10)).toBe(false);
  });

  it('of a large message is not kept by a complete one that was charged more than its frames', () => {
    const { sent, outbox } = recorder();
    const credit = new ReceiveCredit(
      { initial: { messages: 100, stream: 10 }, maxShare: 1000, pool: 50, maxOverrun: 1000 },
      outbox,
    );
    credit.receive(0, 40, 0);
    credit.receive(0, 50, 0);
    credit.overdraw(0, 200);
    credit.consume(0, 40);
    expect(sent).toEqual([]);
    credit.receive(3, 10, 90);
    expect(sent).toEqual([[3, 100]]);
  });

  it('without bounds is never sent, neither on consumption nor on another connection', () => {
    const { sent, outbox } = recorder();
    const credit = new ReceiveCredit(
      {
        initial: { messages: Infinity, stream: Infinity },
        maxShare: Infinity,
        pool: Infinity,
        maxOverrun: Infinity,
      },
      outbox,
    );
    credit.receive(3, 10, 0);
    expect(credit.consume(3, 10)).toBe(false);
    credit.resend();
    expect(sent).toEqual([]);
  });
});
