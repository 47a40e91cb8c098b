import { CloseCode } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { fallBack, openEither } from './fall-back.js';
import { MemoryTransport } from './testing/memory-transport.js';
import { settled, VirtualClock } from './testing/virtual-clock.js';
import type { ConnectionFailure } from './transport.js';
import { inOrder } from './transports.js';

/** When a client that was not told how to connect goes over HTTP, in virtual time. */

const FRAME = Uint8Array.of(1, 2, 3);
const SESSION = {
  current: { core: { state: 'closed', negotiated: undefined } },
  isStopping: true,
  isAccepted: true,
  crash() {},
  move() {},
} as const;

function setUp({ takesHello = false, isThere = true } = {}) {
  const clock = new VirtualClock();
  const webSocket = new MemoryTransport({ takesHello, closesAtOnce: true }, 'websocket');
  const http = new MemoryTransport({ takesHello: true }, 'http');
  let loads = 0;
  let hellos = 0;
  const transport = fallBack(webSocket, clock, async (failure) => {
    loads++;
    if (!isThere) throw new Error('no such file');
    return inOrder([webSocket, http], clock, SESSION, openEither, failure);
  });
  const seen: unknown[] = [];
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
  /** The message of the error that the only event explains. */
  const explained = async () => {
    expect(seen).toHaveLength(1);
    const [what, code, failure] = seen[0] as [string, number, ConnectionFailure];
    expect([what, code]).toEqual(['closed', CloseCode.ABNORMAL]);
    return (await failure())?.message;
  };
  const counts = () => [webSocket.connections.length, http.connections.length];
  return {
    clock,
    webSocket,
    http,
    transport,
    seen,
    open,
    last,
    explained,
    counts,
    loads: () => loads,
    hellos: () => hellos,
  };
}

describe('a client that was not told how to connect', () => {
  it('loads nothing as long as its WebSockets open and live', async () => {
    const { clock, webSocket, transport, seen, open, last, loads, counts } = setUp({ takesHello: true });
    for (let i = 0; i < 5; i++) {
      const wire = open();
      last(webSocket).open();
      last(webSocket).receive(FRAME);
      wire.send(FRAME);
      await clock.pass(60_000);
      expect(last(webSocket).sent).toEqual([FRAME, FRAME]);
      last(webSocket).lose();
    }
    expect(seen.slice(0, 2)).toEqual(['open, said', FRAME]);
    expect([loads(), counts(), transport.name, clock.tasks]).toEqual([0, [5, 0], 'websocket', 0]);
  });

  it('goes over HTTP, without another WebSocket, if one does not open', async () => {
    const { webSocket, http, transport, seen, open, last, loads, counts } = setUp();
    const wire = open();
    last(webSocket).lose();
    await settled();
    expect([counts(), transport.name]).toEqual([[1, 1], 'websocket']);
    last(http).open();
    last(http).receive(FRAME);
    wire.send(FRAME);
    expect(seen).toEqual(['open, said', FRAME]);
    expect(last(http).sent).toEqual([FRAME, FRAME]);
    expect(transport.name).toBe('http');
    // The next connection begins with what has carried this one.
    last(http).lose();
    open();
    expect([counts(), loads()]).toEqual([[1, 2], 1]);
  });

  it('is told of the WebSocket if HTTP fails as well', async () => {
    const { webSocket, http, open, last, explained } = setUp();
    open();
    last(webSocket).lose();
    await settled();
    last(http).lose();
    expect(await explained()).toBe('cannot connect to ws://test/: the test has refused it');
  });

  it('is told the same if the code of HTTP cannot be loaded, and tries WebSockets again', async () => {
    const { webSocket, open, last, explained, counts } = setUp({ isThere: false });
    open();
    last(webSocket).lose();
    await settled();
    expect(await explained()).toBe('cannot connect to ws://test/: the test has refused it');
    open();
    expect(counts()).toEqual([2, 0]);
  });

  it('tries a WebSocket without HELLO in its request first', async () => {
    const { webSocket, open, last, explained, loads } = setUp({ takesHello: true });
    open();
    last(webSocket).lose();
    await settled();
    expect(await explained()).toBe(undefined);
    expect(loads()).toBe(0);
  });

  it('asks a server that is down over HTTP once in 10 s only', async () => {
    const { clock, webSocket, http, open, counts } = setUp();
    for (let i = 0; i < 20; i++) {
      open();
      for (const each of [webSocket, http]) {
        for (const connection of each.connections) connection.lose();
        await settled();
      }
      await clock.pass(2_000);
    }
    expect(counts()).toEqual([20, 4]);
  });

  it.each([
    ['does not open', false],
    ['says nothing, though it has read HELLO', true],
  ])('goes over HTTP after 4 s, with the same HELLO, if a WebSocket %s', async (_what, takesHello) => {
    const { clock, webSocket, http, seen, open, last, counts, hellos } = setUp({ takesHello });
    const wire = open();
    if (takesHello) last(webSocket).open();
    await clock.pass(3_999);
    expect([counts(), last(webSocket).closedWith]).toEqual([[1, 0], undefined]);
    await clock.pass(1);
    expect([counts(), last(webSocket).closedWith]).toEqual([[1, 1], CloseCode.TIMEOUT]);
    last(http).open();
    last(http).receive(FRAME);
    wire.send(FRAME);
    expect(seen).toEqual(['open, said', FRAME]);
    expect([last(http).sent, hellos()]).toEqual([[FRAME, FRAME], 1]);
  });

  it('says that there was no answer if HTTP fails after that', async () => {
    const { clock, http, open, last, explained } = setUp();
    open();
    await clock.pass(4_000);
    last(http).lose();
    expect(await explained()).toBe(
      'cannot connect to ws://test/: no answer within 4000 ms; a test that does not open it gives none',
    );
  });

  it('waits for a server that reads HELLO when the WebSocket is open', async () => {
    const { clock, webSocket, seen, open, last, loads } = setUp();
    open();
    last(webSocket).open();
    await clock.pass(60_000);
    expect([seen, loads()]).toEqual([['open'], 0]);
  });

  it('goes over HTTP after three losses in a row within 5 s of opening', async () => {
    const { clock, webSocket, http, open, last, counts } = setUp();
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
    for (let i = 0; i < 2; i++) await live(100);
    await live(5_000);
    for (let i = 0; i < 3; i++) await live(100);
    expect(counts()).toEqual([10, 0]);
    open();
    await settled();
    expect(counts()).toEqual([10, 1]);
    // If that fails, WebSockets are tried again.
    last(http).lose();
    open();
    expect(counts()).toEqual([11, 1]);
  });

  it.each(['before it opens', 'while the code is loaded'])(
    'tries nothing else if it gives up %s',
    async (when) => {
      const { clock, webSocket, open, last, counts, seen } = setUp();
      const wire = open();
      if (when === 'while the code is loaded') await clock.pass(4_000 - 1);
      if (when === 'while the code is loaded') last(webSocket).lose();
      wire.close(CloseCode.NORMAL, '');
      await clock.pass(60_000);
      await settled();
      expect([counts(), seen.length]).toEqual([[1, 0], 1]);
    },
  );
});
