import { beforeAll, describe, expect, it } from 'vitest';
import { Extension } from '../base/constants.js';
import { resolveLimits } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody } from '../codec/body.js';
import type { ContextEncoder } from '../codec/context/encoder.js';
import { NO_MATCH } from '../codec/context/similarity.js';
import { encodeControl } from '../control/envelope.js';
import type { ControlMessage } from '../control/messages.js';
import { encodeBodyFrame, encodeSignalFrame, LinkKind } from '../link/frame.js';
import { createSimulation, type End, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import { platform } from '../testing/this-platform.js';

/** Context coding in a session: its agreement, its violations and its credit. */

beforeAll(() => platform.loadZstd());

const LINK = { message_window: 20_000, stream_window: 16_384, max_streams: 4 };
const STATED = '{"max_bytes":100000,"max_messages":4}';

function connected(context: string | null = STATED, serverContext = context) {
  const options = (stated: string | null) => ({
    capabilities: {
      ...TEST_CAPABILITIES,
      extensions: {
        [Extension.LINK]: JSON.stringify(LINK),
        ...(stated === null ? {} : { [Extension.CONTEXT]: stated }),
      },
    },
    limits: resolveLimits({ maxMessageSize: 1_000_000 }),
  });
  const simulation = createSimulation({ client: options(context), server: options(serverContext) });
  simulation.settle();
  return simulation;
}

/** A message that is coded against the one that it resembles, even if that saves nothing. */
function inContext(text: string, isPart = false): CodedBody {
  const content = encodeUtf8(text);
  return {
    ...plainBody(content),
    deferred: {
      encode(encoder: ContextEncoder, streamId) {
        const offer = encoder.code(content, encoder.match(content, streamId, isPart), isPart);
        return { codec: BodyCodec.CONTEXT, bytes: offer.bytes, originalLength: content.length, offer };
      },
    },
  };
}

const errorAt = ({ events }: End) => {
  const ended = events.find((event) => event.type === 'ended');
  return ended?.type === 'ended' ? ended.error?.code : undefined;
};
const acceptWith = (extensions: Readonly<Record<string, string>>): ControlMessage => ({
  type: 'ACCEPT',
  sessionId: 'sess_test',
  timestamp: 0,
  payload: {
    shape: 'flat',
    version: '1.0',
    algorithms: ['NONE'],
    encoding: null,
    encodings: [],
    securityScanning: false,
    sessionTimeoutMs: 0,
    maxPayloadSize: 0,
    limits: {},
    extensions,
  },
});
const bodyFrame = (kind: 0 | 1 | 3, streamId: number, bytes: Uint8Array, secret = false) =>
  encodeBodyFrame({ ...plainBody(bytes), kind, streamId, codec: BodyCodec.CONTEXT, secret }, 0, bytes.length);

describe('the agreement', () => {
  it.each(['', '{}', '[1]', '{"max_bytes":-1,"max_messages":1}'])(
    'refuses a HELLO that states %s',
    (stated) => {
      const { server, client } = connected(stated, STATED);
      expect(server.closedWith?.code).toBe(4400);
      expect(errorAt(server)).toBe('bad_message');
      expect(client.core.state).toBe('closed');
    },
  );

  it('refuses an ACCEPT with malformed parameters', () => {
    const extensions = { [Extension.LINK]: '{}', [Extension.CONTEXT]: STATED };
    const simulation = createSimulation({
      client: { capabilities: { ...TEST_CAPABILITIES, extensions } },
      onHello: () => {},
    });
    const { client } = simulation;
    simulation.settle();
    const stated = { ...extensions, [Extension.CONTEXT]: '{"max_bytes":"much"}' };
    simulation.inject('server', encodeControl(acceptWith(stated)));
    simulation.settle();
    expect(client.closedWith?.code).toBe(4400);
    expect(errorAt(client)).toBe('bad_message');
  });

  it('is off unless both ends state it', () => {
    for (const [client, server] of [
      [STATED, undefined],
      [undefined, STATED],
    ] as const) {
      const simulation = createSimulation({
        client: {
          capabilities: {
            ...TEST_CAPABILITIES,
            extensions: { link: '{}', ...(client && { context: client }) },
          },
        },
        server: {
          capabilities: {
            ...TEST_CAPABILITIES,
            extensions: { link: '{}', ...(server && { context: server }) },
          },
        },
      });
      simulation.settle();
      expect([simulation.client.core.channel.contextUse, simulation.server.core.channel.contextUse]).toEqual([
        undefined,
        undefined,
      ]);
    }
  });
});

describe('a peer that violates it', () => {
  const body = Uint8Array.of(0, 0x9a, 0xc1, 0x05, 0xa6, 0x61);
  it.each<[string, string | null, Uint8Array, string]>([
    ['codes in a context that was not agreed', null, bodyFrame(LinkKind.MESSAGE, 0, body), 'bad_frame'],
    ['codes a secret in context', STATED, bodyFrame(LinkKind.MESSAGE, 0, body, true), 'bad_frame'],
    [
      'names a base that does not exist',
      STATED,
      bodyFrame(LinkKind.REQUEST, 1, Uint8Array.of(8, 0, 0, 0, 0, 0, 0)),
      'bad_frame',
    ],
    [
      'states another CRC',
      STATED,
      bodyFrame(LinkKind.MESSAGE, 0, Uint8Array.of(0, 0, 0, 0, 0, 0x61)),
      'bad_checksum',
    ],
    ['sends a body of nothing', STATED, bodyFrame(LinkKind.MESSAGE, 0, new Uint8Array(0)), 'truncated'],
  ])('and %s ends the session', (_what, stated, frame, code) => {
    const simulation = connected(stated);
    simulation.inject('client', frame);
    simulation.settle();
    expect(errorAt(simulation.server)).toBe(code);
    expect(simulation.server.closedWith?.code).toBe(4400);
  });

  it.each([
    ['without parts in context states a CRC', false, Uint8Array.of(1, 2, 3, 4), 'trailing_bytes'],
    ['with parts in context states none', true, new Uint8Array(0), 'truncated'],
    ['states another one', true, Uint8Array.of(1, 2, 3, 4), 'bad_checksum'],
  ])('and ends a stream that %s', (_what, hasParts, rest, code) => {
    const simulation = connected();
    const { client, server } = simulation;
    const stream = client.core.channel.request(plainBody(encodeUtf8('go')));
    simulation.settle();
    server.core.channel.chunk(
      stream,
      hasParts ? inContext('{"a part":"of json"}', true) : plainBody(encodeUtf8('x')),
    );
    simulation.settle();
    simulation.inject('server', encodeSignalFrame(LinkKind.END, stream, rest));
    simulation.settle();
    expect(errorAt(client)).toBe(code);
  });
});

describe('credit', () => {
  it('is charged by the decoded size of a message, which may exceed it once and is paid back by reading', () => {
    const simulation = connected();
    const { client, server } = simulation;
    const text = `{"text":"${'the quick brown fox. '.repeat(2500)}"}`;
    for (let i = 0; i < 3; i++) client.core.channel.send(inContext(`${text}${i}`));
    simulation.settle();
    // A few hundred bytes on the wire, and more than twice the window in memory.
    expect(eventsOf(server, 'message').length).toBe(1);
    expect(client.core.isBlockedOnCredit).toBe(true);
    const [first] = eventsOf(server, 'message');
    expect(first?.body.charge).toBe(text.length + 1 + 16);
    for (let read = 0; read < 3; read++) {
      const { body } = eventsOf(server, 'message')[read] as {
        body: { charge: number; content?: Uint8Array };
      };
      expect(new TextDecoder().decode(body.content)).toBe(`${text}${read}`);
      server.core.channel.consume(0, body.charge);
      simulation.settle();
    }
    expect(client.core.isBlockedOnCredit).toBe(false);
    expect(client.core.queuedBytes).toBe(0);
  });

  it('decides when a body is coded: not before there is some, and against what was written before it', () => {
    const simulation = connected();
    const { client, server } = simulation;
    const coded: string[] = [];
    const watched = (text: string): CodedBody => {
      const body = inContext(text);
      return {
        ...body,
        deferred: {
          encode(...args) {
            coded.push(text.slice(0, 5));
            return body.deferred!.encode(...args);
          },
        },
      };
    };
    // Fills the window of one-way messages.
    client.core.channel.send(plainBody(new Uint8Array(19_980)));
    client.core.channel.send(watched(`late ${'a message that waits. '.repeat(20)}`));
    const stream = client.core.channel.request(watched(`soon ${'a message that waits. '.repeat(20)}`));
    simulation.settle();
    expect(coded).toEqual(['soon ']);
    expect(client.core.queuedBytes).toBeGreaterThan(400);
    server.core.channel.consume(0, eventsOf(server, 'message')[0]?.body.charge ?? 0);
    simulation.settle();
    expect(coded).toEqual(['soon ', 'late ']);
    expect(client.core.queuedBytes).toBe(0);
    expect(eventsOf(server, 'message').length).toBe(2);
    expect(eventsOf(server, 'message')[1]?.body.bytes.length).toBeLessThan(40);
    expect(stream).toBe(1);
  });

  it('is not spent on a body that was cancelled before it was coded', () => {
    const simulation = connected();
    const { client, server } = simulation;
    const refuse: CodedBody = {
      ...plainBody(encodeUtf8('x')),
      deferred: {
        encode() {
          throw new Error('a cancelled body was coded');
        },
      },
    };
    const stream = client.core.channel.request(plainBody(encodeUtf8('go')));
    simulation.settle();
    server.core.channel.chunk(stream, plainBody(new Uint8Array(16_368)));
    server.core.channel.chunk(stream, refuse);
    simulation.settle();
    client.core.channel.cancel(stream);
    simulation.settle();
    server.core.channel.end(stream);
    simulation.settle();
    expect([
      client.core.channel.openStreams,
      server.core.channel.openStreams,
      server.core.queuedBytes,
    ]).toEqual([0, 0, 0]);
  });
});

it('keeps what it states, and states what it keeps', () => {
  const simulation = connected();
  const { client, server } = simulation;
  client.core.channel.send(inContext('a'.repeat(1000)));
  client.core.channel.send({
    ...plainBody(encodeUtf8('other')),
    deferred: {
      encode(encoder) {
        const content = encodeUtf8('something else altogether');
        const offer = encoder.code(content, NO_MATCH, false);
        return { codec: BodyCodec.CONTEXT, bytes: offer.bytes, originalLength: content.length, offer };
      },
    },
  });
  simulation.settle();
  const kept = { messages: 2, bytes: 1025 };
  const none = { messages: 0, bytes: 0 };
  expect(client.core.channel.contextUse).toEqual({ sent: kept, received: none });
  expect(server.core.channel.contextUse).toEqual({ sent: none, received: kept });
});
