import { describe, expect, it } from 'vitest';
import { Extension } from '../base/constants.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody } from '../codec/body.js';
import { encodeControl } from '../control/envelope.js';
import type { LaterCodec } from '../control/messages.js';
import { createSimulation, type End, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import type { SessionOptions } from './types.js';

/** Codecs whose code the client loads after ACCEPT: the extension `ready`, READY and frames that wait. */

const LATER: readonly LaterCodec[] = ['CONTEXT', 'BROTLI', 'TOKEN_NATIVE'];

function setUp(
  later: unknown = LATER,
  { server, client }: { server?: Partial<SessionOptions>; client?: Partial<SessionOptions> } = {},
) {
  const capabilities = (ready: unknown) => ({
    ...TEST_CAPABILITIES,
    extensions: {
      [Extension.LINK]: '{}',
      [Extension.RESUME]: '{}',
      ...(ready === null ? {} : { [Extension.READY]: JSON.stringify(ready) }),
    },
  });
  const simulation = createSimulation({
    client: { capabilities: capabilities(later), ...client },
    server: { capabilities: capabilities([]), ...server },
  });
  simulation.settle();
  return simulation;
}

const withoutReady = {
  capabilities: { ...TEST_CAPABILITIES, extensions: { link: '{}', resume: '{}' } },
};
const failureOf = (end: End) => eventsOf(end, 'ended')[0]?.error?.code;
const ready = (codecs: readonly string[]) =>
  encodeControl({
    type: 'READY',
    sessionId: 'sess_test',
    timestamp: 0,
    payload: { codecs: codecs as LaterCodec[] },
  });

describe('the codecs that a server waits for', () => {
  it('are those of HELLO, until READY names them', () => {
    const { client, server, ...simulation } = setUp();
    expect([...server.core.awaitedCodecs]).toEqual(LATER);
    client.core.announceReady(['BROTLI'], simulation.now);
    simulation.settle();
    expect([...server.core.awaitedCodecs]).toEqual(['CONTEXT', 'TOKEN_NATIVE']);
    client.core.announceReady(['CONTEXT'], simulation.now);
    simulation.settle();
    expect([...server.core.awaitedCodecs]).toEqual(['TOKEN_NATIVE']);
    expect(eventsOf(server, 'ready')).toHaveLength(2);
  });

  it('are announced once, and only if HELLO has listed them', () => {
    const { client, ...simulation } = setUp();
    const sent = client.sent.length;
    client.core.announceReady(['M2M', 'NONE'], simulation.now);
    simulation.settle();
    expect(client.sent).toHaveLength(sent);
    client.core.announceReady(['BROTLI', 'M2M'], simulation.now);
    client.core.announceReady(['BROTLI'], simulation.now);
    simulation.settle();
    expect(client.sent).toHaveLength(sent + 1);
  });

  it('are none if the server does not know the extension', () => {
    const { client, server, ...simulation } = setUp(LATER, { server: withoutReady });
    const sent = client.sent.length;
    client.core.announceReady(['BROTLI'], simulation.now);
    simulation.settle();
    expect(client.sent).toHaveLength(sent);
    expect([client.core.state, server.core.awaitedCodecs.size]).toEqual(['established', 0]);
  });

  it('are announced again after a resume, because READY may have been lost with the connection', () => {
    const { client, server, ...simulation } = setUp();
    client.core.announceReady(['CONTEXT'], simulation.now);
    simulation.cut();
    expect([...server.core.awaitedCodecs]).toEqual(LATER);
    client.core.announceReady(['BROTLI'], simulation.now);
    simulation.reconnect();
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
    expect([...server.core.awaitedCodecs]).toEqual(['TOKEN_NATIVE']);
  });

  it('ignores names in HELLO and READY that it does not know', () => {
    const { client, server, ...simulation } = setUp(['CONTEXT', 'LZ4']);
    expect([...server.core.awaitedCodecs]).toEqual(['CONTEXT']);
    simulation.inject('client', ready(['LZ4', 'M2M']));
    simulation.settle();
    expect(eventsOf(server, 'ready')).toEqual([]);
    expect(client.core.state).toBe('established');
  });

  it.each([
    ['is not JSON', '{'],
    ['is not a list', '{"CONTEXT":true}'],
    ['has a name that is not a string', '[1]'],
    ['has 65 names', JSON.stringify(Array(65).fill('CONTEXT'))],
  ])('refuses a HELLO whose extension %s', (_fault, stated) => {
    const { client, server } = setUp(null, {
      client: { capabilities: { ...TEST_CAPABILITIES, extensions: { link: '{}', ready: stated } } },
    });
    expect(failureOf(server)).toBe('bad_message');
    expect(client.core.state).toBe('closed');
  });

  it('accepts 64 names, and refuses 65 in READY', () => {
    const { server, ...simulation } = setUp(Array(64).fill('CONTEXT'));
    simulation.inject('client', ready(Array(64).fill('CONTEXT')));
    simulation.settle();
    expect([server.core.state, server.core.awaitedCodecs.size]).toEqual(['established', 0]);
    simulation.inject('client', ready(Array(65).fill('CONTEXT')));
    simulation.settle();
    expect(failureOf(server)).toBe('bad_message');
  });

  it('refuses READY that was not agreed on, and READY from a server', () => {
    const old = setUp(null);
    old.inject('client', ready(['CONTEXT']));
    old.settle();
    expect(failureOf(old.server)).toBe('protocol_violation');
    const reversed = setUp();
    reversed.inject('server', ready(['CONTEXT']));
    reversed.settle();
    expect(failureOf(reversed.client)).toBe('protocol_violation');
  });
});

describe('a body whose code is not loaded', () => {
  const brotli = (text: string): CodedBody => ({ ...plainBody(encodeUtf8(text)), codec: BodyCodec.BROTLI });
  const received = (end: End) =>
    eventsOf(end, 'message').map(({ body }) => new TextDecoder().decode(body.bytes));

  function lazy() {
    const loaded = new Set<BodyCodec>([BodyCodec.PLAIN]);
    const simulation = setUp(LATER, { client: { isDecodable: (codec) => loaded.has(codec) } });
    const send = (...bodies: CodedBody[]) => {
      for (const body of bodies) simulation.server.core.channel.send(body);
      simulation.settle();
    };
    return { ...simulation, loaded, send, simulation };
  }

  it('waits with everything after it, and asks for its code once', () => {
    const { client, server, loaded, send, simulation } = lazy();
    send(plainBody(encodeUtf8('1')), brotli('2'), plainBody(encodeUtf8('3')), brotli('4'));
    expect(received(client)).toEqual(['1']);
    expect(eventsOf(client, 'codec')).toEqual([{ type: 'codec', codec: BodyCodec.BROTLI }]);
    expect(server.core.channel.framesConfirmed).toBeLessThan(2);
    loaded.add(BodyCodec.BROTLI);
    client.core.releaseFrames(simulation.now);
    simulation.settle();
    expect(received(client)).toEqual(['1', '2', '3', '4']);
    send(brotli('5'));
    expect(received(client)).toHaveLength(5);
  });

  it('is delivered if its code cannot be loaded, so that its reader gets the error', () => {
    const { client, send, simulation } = lazy();
    send(brotli('1'), plainBody(encodeUtf8('2')));
    client.core.releaseFrames(simulation.now);
    simulation.settle();
    expect(received(client)).toEqual(['1', '2']);
    send(brotli('3'));
    expect([received(client).length, eventsOf(client, 'codec').length]).toEqual([3, 1]);
  });

  it('waits for each codec on its own', () => {
    const { client, loaded, send, simulation } = lazy();
    send(brotli('1'), { ...brotli('2'), codec: BodyCodec.TOKEN_NATIVE }, plainBody(encodeUtf8('3')));
    loaded.add(BodyCodec.BROTLI);
    client.core.releaseFrames(simulation.now);
    simulation.settle();
    expect(received(client)).toEqual(['1']);
    expect(eventsOf(client, 'codec').map(({ codec }) => codec)).toEqual([
      BodyCodec.BROTLI,
      BodyCodec.TOKEN_NATIVE,
    ]);
    client.core.releaseFrames(simulation.now);
    simulation.settle();
    expect(received(client)).toEqual(['1', '2', '3']);
  });

  it('arrives again after a resume if the connection was lost while it waited', () => {
    const { client, loaded, send, simulation } = lazy();
    send(brotli('1'), plainBody(encodeUtf8('2')));
    simulation.cut();
    simulation.reconnect();
    loaded.add(BodyCodec.BROTLI);
    client.core.releaseFrames(simulation.now);
    simulation.settle();
    expect(received(client)).toEqual(['1', '2']);
  });

  it('does not keep control messages waiting', () => {
    const { client, server, send, simulation } = lazy();
    send(brotli('1'));
    // Longer than a peer may leave a PING unanswered.
    simulation.advance(120_000);
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
    expect(received(client)).toEqual([]);
  });
});
