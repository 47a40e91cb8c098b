import { expect, it } from 'vitest';
import { Extension, Subprotocol } from '../base/constants.js';
import { resolveLimits } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec, plainBody } from '../codec/body.js';
import type { ContextEncoder } from '../codec/context/encoder.js';
import { NO_MATCH } from '../codec/context/similarity.js';
import { CloseReason } from '../control/messages.js';
import { encodeSignalFrame, LinkKind } from '../link/frame.js';
import { errorCode } from '../testing/error-code.js';
import { createSimulation, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import { HeldFrames } from './incoming.js';

const PARAMETERS = { max_bytes: 10_000, max_messages: 4 };
const EXTENSIONS = {
  [Extension.LINK]: '{}',
  [Extension.RESUME]: '{}',
  [Extension.CONTEXT]: JSON.stringify(PARAMETERS),
};
const common = { capabilities: { ...TEST_CAPABILITIES, extensions: EXTENSIONS } };
const created = () => {
  const simulation = createSimulation({ client: common, server: common });
  simulation.settle();
  return simulation;
};

/** A message that is coded in context when it is written. */
const inContext = (text: string) => ({
  ...plainBody(encodeUtf8(text)),
  deferred: {
    encode(encoder: ContextEncoder) {
      const offer = encoder.code(encodeUtf8(text), NO_MATCH, false);
      return { codec: BodyCodec.CONTEXT, bytes: offer.bytes, originalLength: text.length, offer };
    },
  },
});
const textsAt = (events: readonly { body: { bytes: Uint8Array; content?: Uint8Array | undefined } }[]) =>
  events.map(({ body }) => new TextDecoder().decode(body.content ?? body.bytes));

it('holds everything until it can be decoded, in order, CLOSE too', () => {
  const { client, server, ...simulation } = created();
  client.core.holdFrames();
  for (const body of [
    plainBody(encodeUtf8('at once')),
    inContext('one'),
    plainBody(encodeUtf8('two')),
    inContext('three'),
  ]) {
    server.core.channel.send(body);
  }
  simulation.settle();
  server.core.close(CloseReason.NORMAL, '', simulation.now);
  simulation.settle();
  expect(eventsOf(client, 'message')).toEqual([]);
  expect(client.core.state).toBe('established');
  client.core.releaseFrames(simulation.now);
  simulation.settle();
  expect(textsAt(eventsOf(client, 'message'))).toEqual(['at once', 'one', 'two', 'three']);
  expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
  expect(eventsOf(client, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
});

it('acknowledges nothing that it holds, so the peer sends it again on another connection', () => {
  const simulation = created();
  const { client, server } = simulation;
  client.core.holdFrames();
  server.core.channel.send(plainBody(encodeUtf8('zero')));
  for (const text of ['one', 'two']) server.core.channel.send(inContext(text));
  simulation.advance(1_000);
  expect(server.core.channel.framesUnconfirmed).toBe(3);
  simulation.cut();
  simulation.reconnect();
  simulation.advance(1_000);
  expect(server.core.channel.framesUnconfirmed).toBe(3);
  client.core.releaseFrames(simulation.now);
  simulation.advance(1_000);
  expect(textsAt(eventsOf(client, 'message'))).toEqual(['zero', 'one', 'two']);
  expect(server.core.channel.framesUnconfirmed).toBe(0);
});

it.each([
  ['bare frames', Subprotocol.BINARY],
  ['DATA', Subprotocol.JSON],
])('holds %s as well, without a link', (_what, subprotocol) => {
  const bare = { subprotocol, capabilities: { ...TEST_CAPABILITIES, extensions: {} } };
  const simulation = createSimulation({ client: bare, server: bare });
  const { client, server } = simulation;
  simulation.settle();
  client.core.holdFrames();
  server.core.channel.send(plainBody(encodeUtf8('one')));
  server.core.close(CloseReason.NORMAL, '', simulation.now);
  simulation.settle();
  expect(eventsOf(client, 'message')).toEqual([]);
  client.core.releaseFrames(simulation.now);
  simulation.settle();
  expect(textsAt(eventsOf(client, 'message'))).toEqual(['one']);
  expect(eventsOf(client, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
});

it('is full beyond a session window, and refuses what credit would not let through', () => {
  const held = new HeldFrames(resolveLimits({ sessionWindow: 200, maxMessageSize: 100 }));
  held.add(new Uint8Array(200 - 64));
  expect(held.isFull).toBe(false);
  held.add('x'.repeat(100 - 64));
  expect(held.isFull).toBe(true);
  expect(errorCode(() => held.add(''))).toBe('window_exceeded');
  const exact = new HeldFrames(resolveLimits({ sessionWindow: 200, maxMessageSize: 100 }));
  expect(errorCode(() => exact.add(new Uint8Array(300 - 64 + 1)))).toBe('window_exceeded');
});

it('ends the session if a held frame violates the protocol, and reads none after it', () => {
  const simulation = created();
  const { client } = simulation;
  client.core.holdFrames();
  simulation.inject('server', encodeSignalFrame(LinkKind.END, 1));
  simulation.inject('server', encodeSignalFrame(LinkKind.ACK, 9));
  simulation.settle();
  expect(client.core.state).toBe('established');
  client.core.releaseFrames(simulation.now);
  simulation.settle();
  expect(eventsOf(client, 'ended').map(({ error }) => error?.message)).toEqual([
    'stream 1 was not opened by this end',
  ]);
});
