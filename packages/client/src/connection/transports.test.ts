import { CloseCode, type ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { openEither } from './fall-back.js';
import { MemoryTransport } from './testing/memory-transport.js';
import { settled, VirtualClock } from './testing/virtual-clock.js';
import { createModule, inOrder } from './transports.js';

/** Which of two transports opens a connection, in virtual time, over connections that the test opens and loses. */

const FRAME = Uint8Array.of(1, 2, 3);

/** It is over, so that nothing is looked for. */
const SESSION = {
  current: { core: { state: 'closed', negotiated: undefined } },
  isStopping: true,
  isAccepted: true,
  crash() {},
  move() {},
} as const;

function setUp(takesHello = true) {
  const clock = new VirtualClock();
  const webSocket = new MemoryTransport({ takesHello }, 'websocket');
  const http = new MemoryTransport({ takesHello: true }, 'http');
  const transport = inOrder([webSocket, http], clock, SESSION, openEither);
  const seen: unknown[] = [];
  let hellos = 0;
  const open = () => {
    const hello = () => {
      hellos++;
      return FRAME;
    };
    return transport.open(new URL('ws://test'), hello, {
      onOpen: (isSaid) => seen.push(isSaid ? 'open, said' : 'open'),
      onMessage: (data) => seen.push(data),
      onWritable: () => seen.push('writable'),
      onClose: (code, _reason, failure) => seen.push(['closed', code, failure]),
    });
  };
  const last = (of: MemoryTransport) => {
    const connection = of.connections.at(-1);
    if (connection === undefined) throw new Error(`nothing was opened by ${of.name}`);
    return connection;
  };
  return { clock, webSocket, http, transport, seen, open, last, hellos: () => hellos };
}

describe('two transports', () => {
  it('use the first one if it opens', async () => {
    const { clock, webSocket, http, transport, seen, open, last } = setUp();
    const wire = open();
    last(webSocket).open();
    expect(seen).toEqual(['open, said']);
    last(webSocket).receive(FRAME);
    expect(seen).toEqual(['open, said', FRAME]);
    wire.send(FRAME);
    expect(last(webSocket).sent).toHaveLength(2);
    await clock.pass(60_000);
    expect(http.connections).toHaveLength(0);
    expect(transport.name).toBe('websocket');
    wire.close(CloseCode.NORMAL, '');
    expect(last(webSocket).closedWith).toBe(CloseCode.NORMAL);
  });

  it('say at once that it is open if HELLO has to follow', () => {
    const { webSocket, seen, open, last } = setUp(false);
    open();
    last(webSocket).open();
    expect(seen).toEqual(['open']);
  });

  it('use the second one at once if the first is refused, with the same HELLO, said once', async () => {
    const { webSocket, http, transport, seen, open, last, hellos } = setUp(false);
    const wire = open();
    last(webSocket).lose();
    await settled();
    last(http).open();
    last(http).receive(FRAME);
    expect(seen).toEqual(['open, said', FRAME]);
    expect(last(http).sent).toEqual([FRAME]);
    expect(hellos()).toBe(1);
    expect(transport.name).toBe('http');
    wire.send(FRAME);
    expect(last(http).sent).toHaveLength(2);
    // A later connection begins with what has opened last.
    last(http).lose();
    open();
    expect([webSocket.connections.length, http.connections.length]).toEqual([1, 2]);
  });

  it.each([
    ['does not open', false],
    ['opens, but says nothing', true],
  ])('use the second one after 4 s if the first %s, and hear no more of that', async (_what, opens) => {
    const { clock, webSocket, http, seen, open, last } = setUp();
    open();
    if (opens) last(webSocket).open();
    await clock.pass(3_999);
    expect(http.connections).toHaveLength(0);
    await clock.pass(1);
    expect(last(webSocket).closedWith).toBe(CloseCode.TIMEOUT);
    last(webSocket).receive(FRAME);
    last(webSocket).lose();
    expect(seen).toEqual(opens ? ['open, said'] : []);
    last(http).open();
    expect(seen).toEqual(['open, said']);
  });

  it('fail as the first one does if neither opens', async () => {
    const { webSocket, http, seen, open, last } = setUp(false);
    open();
    last(webSocket).lose();
    await settled();
    last(http).lose();
    const [[what, code, failure]] = seen as [[string, number, () => ProtocolError]];
    expect([what, code]).toEqual(['closed', CloseCode.ABNORMAL]);
    expect(failure().message).toBe('cannot connect to ws://test/: the test has refused it');
  });

  it('fail as the second one does if that had no place in this browser', async () => {
    const { webSocket, http, seen, open, last } = setUp(false);
    open();
    last(webSocket).lose();
    await settled();
    last(http).lose(CloseCode.RATE_LIMITED);
    const [[, code, failure]] = seen as [[string, number, () => ProtocolError]];
    expect(code).toBe(CloseCode.RATE_LIMITED);
    expect(failure().message).toContain('http: the test has refused it');
  });

  it('do not continue to the second one if the attempt was given up', () => {
    const { webSocket, http, seen, open, last } = setUp();
    const wire = open();
    wire.close(CloseCode.NORMAL, '');
    last(webSocket).lose();
    expect(http.connections).toHaveLength(0);
    expect(seen).toHaveLength(1);
  });

  it('begin with the second one after three losses in a row within 5 s of opening', async () => {
    const { clock, webSocket, http, transport, open, last } = setUp(false);
    const live = async (ms: number, code: number = CloseCode.ABNORMAL) => {
      open();
      last(webSocket).open();
      await clock.pass(ms);
      last(webSocket).lose(code);
    };
    await live(100);
    await live(4_999);
    // One that lives longer, and one that the server closes, are no such losses.
    await live(5_000);
    await live(100, CloseCode.NORMAL);
    await live(100);
    await live(100);
    expect(transport.name).toBe('websocket');
    await live(100);
    expect(transport.name).toBe('http');
    open();
    expect(http.connections).toHaveLength(1);
    // If that fails, the first one is tried again.
    last(http).lose();
    await settled();
    expect(webSocket.connections).toHaveLength(8);
  });
});

describe('the option', () => {
  const limits = { maxMessageSize: 1_000, maxHandshakeSize: 1_000 };
  it.each([[[]], [['http', 'http']], [['sse']]])('refuses %j', (transports) => {
    expect(() => createModule({ options: { transports: transports as never }, limits })).toThrow(
      expect.objectContaining({ code: 'invalid_option' }),
    );
  });

  it('refuses HTTP for text frames', () => {
    const options = { transports: ['http'], subprotocol: 'm2m.v1.json' } as const;
    expect(() => createModule({ options, limits })).toThrow('m2m.v1 only');
  });

  it('uses one transport alone if only that is given', () => {
    const usual = new MemoryTransport();
    const clock = new VirtualClock();
    const chosen = (transports: readonly ('websocket' | 'http')[]) =>
      createModule({ options: { transports }, limits }).plan.transport(usual, clock, openEither);
    expect(chosen(['websocket'])).toBe(usual);
    expect(chosen(['http']).name).toBe('http');
    expect(chosen(['http', 'websocket']).name).toBe('http');
  });
});
