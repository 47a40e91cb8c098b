import { expect, it } from 'vitest';
import { Extension } from './constants.js';
import type { ContextEncoder } from './context/encoder.js';
import { NO_MATCH } from './context/similarity.js';
import { HeldFrames } from './held-frames.js';
import { resolveLimits } from './limits.js';
import { encodeBodyFrame, LinkCodec, LinkKind } from './link/header.js';
import { plainBody } from './link/link.js';
import { CloseReason } from './messages.js';
import { errorCode } from './testing/error-code.js';
import { createSimulation, eventsOf, TEST_CAPABILITIES } from './testing/simulation.js';
import { encodeUtf8 } from './text.js';

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
  late: {
    code(encoder: ContextEncoder) {
      const offer = encoder.code(encodeUtf8(text), NO_MATCH, false);
      return { codec: LinkCodec.CONTEXT, bytes: offer.bytes, originalLength: text.length, offer };
    },
  },
});
const textsAt = (events: readonly { body: { bytes: Uint8Array; content?: Uint8Array | undefined } }[]) =>
  events.map(({ body }) => new TextDecoder().decode(body.content ?? body.bytes));

it('holds back what follows a body in context until that can be decoded, CLOSE too', () => {
  const { client, server, ...simulation } = created();
  client.core.holdFrames();
  for (const body of [
    plainBody(encodeUtf8('at once')),
    inContext('one'),
    plainBody(encodeUtf8('two')),
    inContext('three'),
  ]) {
    server.core.send(body);
  }
  simulation.settle();
  expect(textsAt(eventsOf(client, 'message'))).toEqual(['at once']);
  server.core.close(CloseReason.NORMAL, '', simulation.now);
  simulation.settle();
  expect(client.core.state).toBe('established');
  client.core.releaseFrames(simulation.now);
  simulation.settle();
  expect(textsAt(eventsOf(client, 'message'))).toEqual(['at once', 'one', 'two', 'three']);
  expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
  expect(eventsOf(client, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
});

it('counts nothing that it holds, so that it comes again on another connection', () => {
  const simulation = created();
  const { client, server } = simulation;
  client.core.holdFrames();
  for (const text of ['one', 'two']) server.core.send(inContext(text));
  simulation.settle();
  simulation.cut();
  simulation.reconnect();
  simulation.settle();
  client.core.releaseFrames(simulation.now);
  simulation.settle();
  expect(textsAt(eventsOf(client, 'message'))).toEqual(['one', 'two']);
  expect(client.core.state).toBe('established');
});

it('holds no more than credit would let through', () => {
  const limits = resolveLimits({ sessionWindow: 100, maxMessageSize: 50 });
  const held = new HeldFrames(limits);
  const frame = (codec: LinkCodec, length: number) =>
    encodeBodyFrame(
      { ...plainBody(new Uint8Array(length)), kind: LinkKind.MESSAGE, streamId: 0, codec },
      0,
      length,
    );
  expect(held.takes(frame(LinkCodec.PLAIN, 1000))).toBe(false);
  expect(held.takes(frame(LinkCodec.CONTEXT, 97))).toBe(true);
  expect(held.takes(frame(LinkCodec.PLAIN, 47))).toBe(true);
  expect(errorCode(() => held.takes(Uint8Array.of(0x18)))).toBe('window_exceeded');
});
