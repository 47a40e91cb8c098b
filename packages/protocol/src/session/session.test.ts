import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Algorithm, EncodingName, Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError, RequestError } from '../base/errors.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { decodeUtf8, encodeUtf8, truncateUtf8 } from '../base/text.js';
import { CODEC_OF } from '../codec/algorithms.js';
import { BodyCodec, plainBody } from '../codec/body.js';
import { decodeControl } from '../control/envelope.js';
import { encodeMap, MAX_CONTROL_SIZE } from '../control/maps.js';
import { CloseReason, RejectCode } from '../control/messages.js';
import { encodeSignalFrame, LinkKind } from '../link/frame.js';
import {
  createSimulation,
  eventsOf,
  type SimulationOptions,
  TEST_CAPABILITIES,
} from '../testing/simulation.js';
import { closeReasonOf } from './close-reason.js';
import type { ServerSessionCore } from './types.js';

const text = (value: string) => plainBody(encodeUtf8(value));
const established = (options: SimulationOptions = {}) => {
  const simulation = createSimulation(options);
  simulation.advance(3 * (options.delayMs ?? 0));
  expect([simulation.client.core.state, simulation.server.core.state]).toEqual([
    'established',
    'established',
  ]);
  return simulation;
};

describe('handshake', () => {
  it('agrees on the intersection in the order of the client', () => {
    const { client, server } = established({
      client: {
        capabilities: {
          ...TEST_CAPABILITIES,
          algorithms: [Algorithm.BROTLI, Algorithm.M2M, Algorithm.TOKEN],
        },
      },
    });
    expect(client.core.negotiated?.algorithms).toEqual([Algorithm.BROTLI, Algorithm.M2M]);
    expect(client.core.negotiated?.encoding).toBe(EncodingName.CL100K_BASE);
    expect(client.core.id).toBe('sess_test');
    expect(server.core.negotiated?.algorithms).toEqual([Algorithm.BROTLI, Algorithm.M2M]);
    expect(client.core.negotiated?.limits['maxStreams']).toBe(128);
  });

  it('ends in REJECT if the ends have nothing in common', () => {
    const simulation = createSimulation({
      client: { capabilities: { ...TEST_CAPABILITIES, algorithms: [Algorithm.DICTIONARY] } },
    });
    simulation.settle();
    const [ended] = eventsOf(simulation.client, 'ended');
    expect(ended?.error).toMatchObject({
      code: 'rejected',
      side: 'remote',
      closeCode: CloseCode.BAD_FRAME,
      reject: { code: RejectCode.NO_COMMON_ALGORITHM },
    });
    expect(simulation.server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });

  it('carries a rejection by the server with its close code and whether to retry', () => {
    const simulation = createSimulation({
      onHello: (core, now) =>
        (core as ServerSessionCore).reject({ code: 'SERVER_BUSY', message: 'full' }, CloseCode.DRAINING, now),
    });
    simulation.settle();
    expect(eventsOf(simulation.client, 'ended')[0]?.error).toMatchObject({
      code: 'rejected',
      retryable: true,
      closeCode: CloseCode.DRAINING,
      reject: { code: 'SERVER_BUSY', message: 'full' },
    });
  });

  it('times out at either end', () => {
    const silentServer = createSimulation({ onHello: () => {} });
    silentServer.advance(29_999);
    expect(silentServer.client.core.state).toBe('connecting');
    silentServer.advance(1);
    expect(eventsOf(silentServer.client, 'ended')[0]?.error?.code).toBe('timeout');
    expect(silentServer.client.closedWith?.code).toBe(CloseCode.TIMEOUT);
  });

  it.each([
    ['algorithm', { algorithms: ['DICTIONARY'] }],
    ['encoding', { encoding: 'O200K_BASE' }],
    ['extension', { extensions: { telepathy: '{}' } }],
    ['version', { version: '2.0' }],
    ['payload', { max_payload_size: 2_000 }],
  ])('fails for an ACCEPT whose %s goes beyond the offer', (_what, change) => {
    const simulation = createSimulation({
      client: { capabilities: { ...TEST_CAPABILITIES, maxPayloadSize: 1_000 } },
      onHello: () => {},
    });
    simulation.settle();
    const payload = {
      version: '1.0',
      algorithms: ['M2M'],
      encoding: 'CL100K_BASE',
      extensions: {},
      ...change,
    };
    simulation.inject('server', encodeMap({ type: 'ACCEPT', session_id: 's', timestamp: 1, payload }));
    simulation.settle();
    expect(eventsOf(simulation.client, 'ended')[0]?.error?.code).toBe('bad_acceptance');
    expect(simulation.client.closedWith?.code).toBe(CloseCode.BAD_FRAME);
    expect(simulation.client.core.state).toBe('closed');
  });

  it('refuses data before ACCEPT, a second HELLO and a HELLO by the server', () => {
    const early = createSimulation({ onHello: () => {} });
    early.settle();
    early.inject('client', 'hello there');
    early.settle();
    expect(early.server.closedWith?.code).toBe(CloseCode.BAD_FRAME);

    const twice = established();
    twice.inject('client', twice.client.sent[0] as Uint8Array);
    twice.settle();
    expect(twice.server.closedWith?.code).toBe(CloseCode.BAD_FRAME);

    const reversed = established();
    reversed.inject('server', reversed.client.sent[0] as Uint8Array);
    reversed.settle();
    expect(reversed.client.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });

  it('ends at a HELLO with malformed link parameters, without an event for the application', () => {
    const extensions = { [Extension.LINK]: 'yes' };
    const simulation = createSimulation({ client: { capabilities: { ...TEST_CAPABILITIES, extensions } } });
    simulation.settle();
    expect(simulation.server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
    expect(eventsOf(simulation.server, 'hello')).toEqual([]);
  });

  it('ignores message types of later versions with a warning', () => {
    const simulation = established();
    simulation.inject(
      'server',
      Uint8Array.of(
        0x83,
        0xa4,
        ...encodeUtf8('type'),
        0xa5,
        ...encodeUtf8('NOVEL'),
        0xa9,
        ...encodeUtf8('timestamp'),
        1,
        0xa7,
        ...encodeUtf8('payload'),
        0x80,
      ),
    );
    simulation.settle();
    expect(simulation.client.core.state).toBe('established');
    expect(eventsOf(simulation.client, 'warning')).toHaveLength(1);
  });

  it('warns of them once, counts them, and limits them like other control messages', () => {
    const novel = encodeMap({ type: 'NOVEL', timestamp: 1, payload: {} });
    const limits = resolveLimits({ controlMessagesPerMinute: 5 });
    const simulation = createSimulation({ server: { limits } });
    simulation.settle();
    for (let i = 0; i < 10; i++) simulation.inject('client', novel);
    simulation.settle();
    const { server } = simulation;
    expect(server.core.state).toBe('established');
    expect(eventsOf(server, 'warning')).toHaveLength(1);
    expect(server.core.unknownMessages).toBe(10);
    simulation.inject('client', novel);
    simulation.settle();
    expect(server.closedWith?.code).toBe(CloseCode.RATE_LIMITED);
  });

  it.each([Subprotocol.BINARY, Subprotocol.JSON])('counts PINGs on their own, in %s', (subprotocol) => {
    const limits = resolveLimits({ controlMessagesPerMinute: 5, messagesPerMinute: 1 });
    const simulation = createSimulation({ client: { subprotocol }, server: { subprotocol, limits } });
    simulation.settle();
    const fields = { type: 'PING', timestamp: 1, payload: {} };
    const ping = subprotocol === Subprotocol.BINARY ? encodeMap(fields) : JSON.stringify(fields);
    for (let i = 0; i < 10; i++) simulation.inject('client', ping);
    simulation.settle();
    expect(simulation.server.core.state).toBe('established');
    simulation.inject('client', ping);
    simulation.settle();
    expect(simulation.server.closedWith?.code).toBe(CloseCode.RATE_LIMITED);
  });

  it.each([Subprotocol.BINARY, Subprotocol.JSON])(
    'accepts a control message of 20 KiB after ACCEPT, and none of a byte more, in %s',
    (subprotocol) => {
      const ping = (size: number) => {
        const fill = (length: number) => {
          const fields = { type: 'PING', timestamp: 1, payload: { a: 'x'.repeat(length) } };
          return subprotocol === Subprotocol.BINARY ? encodeMap(fields) : JSON.stringify(fields);
        };
        return fill(size - (fill(1_000).length - 1_000));
      };
      for (const [size, code] of [
        [MAX_CONTROL_SIZE, undefined],
        [MAX_CONTROL_SIZE + 1, CloseCode.TOO_LARGE],
      ] as const) {
        const simulation = createSimulation({ client: { subprotocol }, server: { subprotocol } });
        simulation.settle();
        expect(ping(size)).toHaveLength(size);
        simulation.inject('client', ping(size));
        simulation.settle();
        expect(simulation.server.closedWith?.code).toBe(code);
      }
    },
  );
});

describe('messages', () => {
  it('of any size arrive in order and complete', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(200_000), { maxLength: 8 }), (sizes) => {
        const simulation = established();
        for (const [i, size] of sizes.entries())
          simulation.client.core.channel.send(plainBody(new Uint8Array(size).fill(i)));
        simulation.settle();
        const arrived = eventsOf(simulation.server, 'message').map((event) => [
          event.body.bytes.length,
          event.body.bytes[0],
        ]);
        expect(arrived).toEqual(sizes.map((size, i) => [size, size === 0 ? undefined : i]));
      }),
      { numRuns: 30 },
    );
  });

  it('travel as text without the link, and as envelopes in the JSON subprotocol', () => {
    const bare = { capabilities: { ...TEST_CAPABILITIES, extensions: {} } };
    const binary = established({ client: bare });
    binary.client.core.channel.send(text('hello'));
    binary.settle();
    expect(binary.client.sent.at(-1)).toBe('hello');
    expect(decodeUtf8(eventsOf(binary.server, 'message')[0]?.body.bytes as Uint8Array)).toBe('hello');
    expect(() => binary.client.core.channel.send(text('#TK|C|AA=='))).toThrow(
      expect.objectContaining({ code: 'unrepresentable' }),
    );
    expect(() => binary.client.core.channel.request(text('x'))).toThrow(
      expect.objectContaining({ code: 'unsupported' }),
    );

    const json = established({
      client: { subprotocol: Subprotocol.JSON },
      server: { subprotocol: Subprotocol.JSON },
    });
    expect(json.client.core.channel.hasLink).toBe(false);
    json.client.core.channel.send(text('hello'));
    json.settle();
    expect(JSON.parse(json.client.sent.at(-1) as string)).toMatchObject({
      type: 'DATA',
      session_id: 'sess_test',
      payload: { algorithm: 'NONE', content: 'hello', original_size: 5 },
    });
    expect(decodeUtf8(eventsOf(json.server, 'message')[0]?.body.bytes as Uint8Array)).toBe('hello');
    json.inject('client', Uint8Array.of(1));
    json.settle();
    expect(json.server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });

  it.each([
    ['flat', { M2M: 'M2M', TOKEN_NATIVE: 'TOKEN_NATIVE', BROTLI: 'BROTLI', NONE: 'NONE' }],
    ['nested', { M2M: 'm2m', TOKEN_NATIVE: 'tokennative', BROTLI: 'brotli', NONE: 'none' }],
  ] as const)('name algorithms in DATA as a peer of the %s shape spells them', (shape, names) => {
    const capabilities = { ...TEST_CAPABILITIES, algorithms: Object.keys(names) as Algorithm[] };
    const options = { subprotocol: Subprotocol.JSON, shape, capabilities };
    const { client, server, settle } = established({ client: options, server: options });
    for (const [sender, receiver] of [
      [client, server],
      [server, client],
    ] as const) {
      for (const [algorithm, name] of Object.entries(names)) {
        const codec = CODEC_OF[algorithm as Algorithm];
        sender.core.channel.send({ ...text('{}'), codec });
        settle();
        expect(JSON.parse(sender.sent.at(-1) as string).payload.algorithm).toBe(name);
        expect(eventsOf(receiver, 'message').at(-1)?.body.codec).toBe(codec);
      }
    }
  });

  it('are refused at n + 1 bytes by the sender and by the receiver', () => {
    const limits = resolveLimits({ maxMessageSize: 1_000 });
    const simulation = established({ server: { limits } });
    simulation.client.core.channel.send(plainBody(new Uint8Array(1_000)));
    expect(() => simulation.client.core.channel.send(plainBody(new Uint8Array(1_001)))).toThrow(
      expect.objectContaining({ code: 'message_too_large', side: 'local' }),
    );
    simulation.settle();
    expect(eventsOf(simulation.server, 'message')).toHaveLength(1);

    const frame = new Uint8Array(1_004);
    frame.set([0x10, 0x00, 0x00]);
    simulation.inject('client', frame);
    simulation.settle();
    expect(simulation.server.closedWith?.code).toBe(CloseCode.TOO_LARGE);
  });

  it('in a codec that was not negotiated end the session', () => {
    const simulation = established();
    simulation.inject('client', Uint8Array.of(0x10, 0, BodyCodec.DICTIONARY, 0));
    simulation.settle();
    expect(simulation.server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });
});

describe('streams', () => {
  it('answer with one response, with parts, or with an error', () => {
    const { client, server, settle } = established();
    const ids = [1, 2, 3].map((n) => client.core.channel.request(text(`ask ${n}`)));
    settle();
    expect(eventsOf(server, 'request').map((event) => event.streamId)).toEqual(ids);
    server.core.channel.respond(ids[0] as number, text('one'));
    for (const part of ['a', 'b']) server.core.channel.chunk(ids[1] as number, text(part));
    server.core.channel.end(ids[1] as number);
    server.core.channel.fail(
      ids[2] as number,
      new RequestError('no_such_model', 'not here', { data: { model: 'x' } }),
    );
    settle();
    expect(eventsOf(client, 'response')[0]?.streamId).toBe(ids[0]);
    expect(eventsOf(client, 'part').map((event) => decodeUtf8(event.body.bytes))).toEqual(['a', 'b']);
    expect(eventsOf(client, 'end')).toHaveLength(1);
    expect(eventsOf(client, 'failure')[0]?.error).toMatchObject({
      code: 'no_such_model',
      side: 'remote',
      data: { model: 'x' },
    });
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
  });

  it('hide the details of any other error', () => {
    const { client, server, settle } = established();
    const id = client.core.channel.request(text('ask'));
    settle();
    server.core.channel.fail(id, new Error('password is hunter2'));
    settle();
    const failure = eventsOf(client, 'failure')[0]?.error;
    expect(failure).toMatchObject({ code: 'internal', side: 'remote' });
    expect(failure?.message).not.toContain('hunter2');
  });

  it('take turns, so that a long one does not delay a short one', () => {
    const { client, server, settle } = established();
    const [long, short] = [client.core.channel.request(text('a')), client.core.channel.request(text('b'))];
    settle();
    server.core.channel.respond(long as number, plainBody(new Uint8Array(1_000_000)));
    server.core.channel.respond(short as number, text('quick'));
    settle();
    expect(eventsOf(client, 'response').map((event) => event.streamId)).toEqual([short, long]);
  });

  it('are cancelled once, answered with end, and keep their slot until the handler is done', () => {
    const { client, server, settle } = established();
    const id = client.core.channel.request(text('ask'));
    settle();
    server.core.channel.chunk(id, text('part'));
    client.core.channel.cancel(id);
    client.core.channel.cancel(id);
    settle();
    expect(eventsOf(server, 'cancel')).toHaveLength(1);
    expect(server.core.channel.isWanted(id)).toBe(false);
    server.core.channel.chunk(id, text('dropped'));
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([1, 1]);
    server.core.channel.respond(id, text('late'));
    settle();
    expect(eventsOf(client, 'end')).toHaveLength(1);
    expect(eventsOf(client, 'response')).toHaveLength(0);
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
  });

  it('that were never written are cancelled without a frame', () => {
    const { client, server, settle } = established();
    const before = client.sent.length;
    client.core.channel.cancel(client.core.channel.request(text('ask')));
    settle();
    expect(client.sent.length).toBe(before);
    expect(client.core.channel.openStreams).toBe(0);
    client.core.channel.request(text('next'));
    settle();
    expect(eventsOf(server, 'request')).toHaveLength(1);
  });

  it('are bounded at n, at both ends', () => {
    const { client, server, settle, inject } = established({
      server: { limits: resolveLimits({ maxStreams: 2 }) },
    });
    client.core.channel.request(text('1'));
    client.core.channel.request(text('2'));
    expect(() => client.core.channel.request(text('3'))).toThrow(
      expect.objectContaining({ code: 'too_many_streams' }),
    );
    settle();
    inject('client', Uint8Array.of(0x11, 5, 0));
    settle();
    expect(server.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });

  it.each([
    ['a stream of the wrong parity', [0x11, 2, 0]],
    ['stream 0', [0x11, 0, 0]],
    ['a stream that was used', [0x11, 1, 0]],
    ['a reply to nothing', [0x12, 2, 0]],
    ['an end of nothing', [0x14, 2]],
    ['an end of stream 0', [0x14, 0]],
    ['a part on stream 0', [0x13, 0, 0]],
    ['a cancel of nothing', [0x16, 9]],
    ['a cancel of its own stream', [0x16, 2]],
    ['a message off stream 0', [0x10, 1, 0]],
    ['an unknown kind', [0x1f, 0]],
    ['an unknown codec', [0x10, 0, 0x0f]],
    ['an ack of more than was sent', [0x18, 99]],
    ['addressing', [0x10, 0, 0x40]],
    ['a cut varint', [0x10, 0x80]],
    ['metadata over its limit', [0x10, 0, 0x80, 0x81, 0x40]],
  ])('refuse %s', (_what, bytes) => {
    const { client, server, settle, inject } = established();
    const id = client.core.channel.request(text('1'));
    settle();
    server.core.channel.respond(id, text('done'));
    settle();
    inject('client', Uint8Array.from(bytes));
    settle();
    expect([CloseCode.BAD_FRAME, CloseCode.TOO_LARGE]).toContain(server.closedWith?.code);
  });

  it('drop a late frame for a stream that is closed', () => {
    const { client, server, settle, inject } = established();
    const id = client.core.channel.request(text('1'));
    settle();
    server.core.channel.respond(id, text('done'));
    settle();
    inject('server', encodeSignalFrame(LinkKind.END, id));
    inject('client', encodeSignalFrame(LinkKind.CANCEL, id));
    settle();
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
  });
});

describe('liveness', () => {
  it('pings after silence and measures the round trip', () => {
    const simulation = established({
      delayMs: 40,
      client: { timers: resolveTimers({ idleTimeoutMs: 3_600_000 }) },
    });
    simulation.advance(60_200);
    expect(simulation.client.core.roundTripMs).toBe(80);
  });

  it('closes an idle session, which neither PING nor PONG keeps alive', () => {
    const simulation = established();
    simulation.advance(299_000);
    expect(simulation.server.core.state).toBe('established');
    simulation.advance(2_000);
    expect(simulation.server.core.state).toBe('closed');
    expect(eventsOf(simulation.client, 'ended')[0]?.error).toMatchObject({ code: 'timeout', side: 'remote' });
  });

  it('keeps a session with an open stream', () => {
    const simulation = established();
    simulation.client.core.channel.request(text('think long'));
    simulation.advance(900_000);
    expect(simulation.server.core.state).toBe('established');
  });

  it('gives the connection up after three PINGs without an answer', () => {
    const simulation = established();
    simulation.client.core.handleTimeout(60_000);
    for (const at of [70_000, 80_000, 90_000]) simulation.client.core.handleTimeout(at);
    const events = [];
    for (let event = simulation.client.core.pollEvent(); event; event = simulation.client.core.pollEvent())
      events.push(event);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'disconnect', closeCode: CloseCode.TIMEOUT }),
    );
    expect(simulation.client.core.state).toBe('closed');
  });
});

describe('closing', () => {
  it('sends what waits, then CLOSE, and both ends end without an error', () => {
    const simulation = established();
    simulation.client.core.channel.send(plainBody(new Uint8Array(300_000)));
    simulation.client.core.close(CloseReason.NORMAL, '', 0);
    expect(() => simulation.client.core.channel.send(text('late'))).toThrow(
      expect.objectContaining({ code: 'session_closed' }),
    );
    simulation.settle();
    expect(eventsOf(simulation.server, 'message')).toHaveLength(1);
    for (const end of [simulation.client, simulation.server]) {
      expect(end.core.state).toBe('closed');
      expect(eventsOf(end, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
      expect(end.closedWith?.code).toBe(CloseCode.NORMAL);
    }
  });

  it('happens from both ends at once', () => {
    const simulation = established({ delayMs: 10 });
    simulation.client.core.close(CloseReason.CLIENT_SHUTDOWN, '', 0);
    simulation.server.core.close(CloseReason.SERVER_SHUTDOWN, '', 0);
    simulation.advance(100);
    for (const end of [simulation.client, simulation.server])
      expect(eventsOf(end, 'ended')[0]?.error).toBeUndefined();
  });

  it('is forced when the peer does not answer', () => {
    const simulation = established();
    simulation.client.core.close(CloseReason.NORMAL, '', 0);
    simulation.client.core.pollTransmit();
    simulation.client.core.handleTimeout(4_999);
    expect(simulation.client.core.state).toBe('closing');
    simulation.client.core.handleTimeout(5_000);
    expect(simulation.client.core.state).toBe('closed');
  });

  it('is forced at the end that answers, too, if the one that has begun never closes', () => {
    const extensions = { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' };
    const options = { capabilities: { ...TEST_CAPABILITIES, extensions } };
    const { server, inject, settle } = established({ client: options, server: options });
    inject('client', encodeMap({ type: 'CLOSE', timestamp: 1 }));
    settle();
    server.core.handleTimeout(4_999);
    expect([server.core.state, server.closedWith]).toEqual(['closing', undefined]);
    server.core.handleTimeout(5_000);
    expect(server.core.state).toBe('closed');
  });

  it('without a CLOSE loses the session', () => {
    const simulation = established();
    simulation.cut();
    expect(eventsOf(simulation.client, 'ended')[0]?.error?.code).toBe('session_lost');
    expect(simulation.server.core.state).toBe('closed');
  });

  it('cuts a reason to 123 bytes, never inside a character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 40, maxLength: 200 }), (value) => {
        const cut = truncateUtf8(value, 123);
        expect(encodeUtf8(cut).length).toBeLessThanOrEqual(123);
        expect(value.startsWith(cut)).toBe(true);
      }),
    );
    expect(encodeUtf8(closeReasonOf(new ProtocolError('bad_frame', 'é'.repeat(200)))).length).toBe(123);
  });
});

describe('arbitrary bytes', () => {
  const frames = fc.array(
    fc.oneof(fc.uint8Array({ maxLength: 64 }), fc.string({ maxLength: 64 }), linkLike()),
    {
      minLength: 1,
      maxLength: 6,
    },
  );

  function linkLike() {
    return fc
      .tuple(fc.integer({ min: 0x10, max: 0x1f }), fc.uint8Array({ maxLength: 40 }))
      .map(([first, rest]) => Uint8Array.of(first, ...rest));
  }

  it.each(['client', 'server'] as const)(
    'sent to the %s in any state end in a documented close code or have no effect',
    (target) => {
      fc.assert(
        fc.property(frames, fc.boolean(), fc.boolean(), (input, handshakeFirst, json) => {
          const subprotocol = json ? Subprotocol.JSON : Subprotocol.BINARY;
          const simulation = createSimulation({
            client: { subprotocol },
            server: { subprotocol },
            ...(handshakeFirst ? {} : { onHello: () => {} }),
          });
          simulation.settle();
          for (const frame of input) simulation.inject(target === 'client' ? 'server' : 'client', frame);
          simulation.settle();
          const end = simulation[target];
          const code = end.closedWith?.code;
          expect([undefined, 1000, ...Object.values(CloseCode)]).toContain(code);
          for (const { error } of eventsOf(end, 'ended')) {
            if (error !== undefined) expect(error).toBeInstanceOf(ProtocolError);
            if (error?.side === 'local') expect(error.code).not.toBe('internal');
          }
        }),
        { numRuns: 500 },
      );
    },
  );
});

describe('envelopes', () => {
  it('state the extension parameters that were agreed', () => {
    const { server } = established();
    const accept = decodeControl(server.sent[0] as Uint8Array);
    expect(accept).toMatchObject({ type: 'ACCEPT', payload: { extensions: { [Extension.LINK]: '{}' } } });
  });
});
