import {
  CloseCode,
  createSession,
  Extension,
  resolveLimits,
  resolveTimers,
  type SessionState,
  Subprotocol,
} from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { createBackoff } from '../connection/backoff.js';
import { Dialer } from '../connection/dialer.js';
import { openEither } from '../connection/fall-back.js';
// Loaded before time passes in these tests, in which loading takes none.
import '../connection/probe.js';
import { MemoryServer } from '../connection/testing/memory-server.js';
import { type MemoryConnection, MemoryTransport } from '../connection/testing/memory-transport.js';
import { settled, VirtualClock } from '../connection/testing/virtual-clock.js';
import { inOrder } from '../connection/transports.js';
import { ReconnectingSession } from './reconnecting-session.js';

/** A client over HTTP that looks for a WebSocket, in virtual time and over connections that the test opens and loses. */

const CAPABILITIES = {
  securityScanning: false,
  maxPayloadSize: 0,
  algorithms: ['NONE'] as const,
  encodings: [],
  vocabularies: {},
};

async function setUp({ resumes = true } = {}) {
  const options = {
    subprotocol: Subprotocol.BINARY,
    capabilities: {
      ...CAPABILITIES,
      extensions: { [Extension.LINK]: '{}', ...(resumes && { [Extension.RESUME]: '{}' }) },
    },
    limits: resolveLimits(),
    timers: resolveTimers({ resumeWindowMs: 60_000, acceptTimeoutMs: 10_000 }),
  };
  const clock = new VirtualClock();
  const webSocket = new MemoryTransport({}, 'websocket');
  const http = new MemoryTransport({ takesHello: true }, 'http');
  const states: SessionState[] = [];
  const reconnecting: ReconnectingSession = new ReconnectingSession({
    createCore: () => createSession({ ...options, role: 'client' }),
    isRenewed: true,
    agentId: undefined,
    endpoint: { clock, limits: options.limits, role: 'client' },
    transport: () => transport.name,
    onReady: () => {},
    onState(state) {
      states.push(state);
      if (state === 'established') dialer.handleSuccess();
    },
    onWireLost: (retryAfterMs) => dialer.retryLater(retryAfterMs),
    moveWithin: (withinMs) => dialer.moveWithin(withinMs),
    retryAt: () => dialer.retryAt,
    onEnded: () => dialer.stop(CloseCode.NORMAL),
  });
  const transport = inOrder([webSocket, http], clock, reconnecting, openEither);
  const dialer: Dialer = new Dialer({
    url: new URL('ws://test'),
    transport,
    timers: { acceptTimeoutMs: 5_000 },
    firstTimeoutMs: 5_000,
    backoff: createBackoff({ minDelayMs: 100, maxDelayMs: 1_000 }, () => 0.2),
    clock,
    logger: undefined,
    askToken: async () => undefined,
    session: reconnecting,
  });
  const all = {
    get connections() {
      return [...webSocket.connections, ...http.connections];
    },
  };
  const server = new MemoryServer(all, options, clock);
  const pass = async (ms: number) => {
    await clock.pass(ms);
    await settled();
    // Lets an attempt that begins now take its first steps.
    await clock.pass(0);
  };
  const last = ({ connections }: MemoryTransport): MemoryConnection => {
    const connection = connections.at(-1);
    if (connection === undefined) throw new Error('nothing was opened');
    return connection;
  };

  dialer.dial(undefined);
  last(webSocket).lose();
  await settled();
  last(http).open();
  server.exchange();
  await settled();
  server.exchange();
  expect([reconnecting.state, transport.name]).toEqual(['established', 'http']);
  return { clock, webSocket, http, states, reconnecting, server, pass, last, transport };
}

describe('a session over HTTP', () => {
  it('looks for a WebSocket after 30 s, 2 and 10 minutes, and stays where it is if none opens', async () => {
    const { webSocket, http, states, pass, last, clock } = await setUp();
    const opened = async (ms: number) => {
      await pass(ms);
      return webSocket.connections.length - 1;
    };
    expect(await opened(29_999)).toBe(0);
    expect(await opened(1)).toBe(1);
    last(webSocket).lose();
    expect(await opened(89_999)).toBe(1);
    expect(await opened(1)).toBe(2);
    // One that hangs is given up.
    expect(await opened(4_000)).toBe(2);
    expect(last(webSocket).closedWith).toBe(CloseCode.TIMEOUT);
    expect(await opened(475_999)).toBe(2);
    expect(await opened(1)).toBe(3);
    last(webSocket).lose();
    expect(await opened(3_600_000)).toBe(3);
    expect([http.connections.length, last(http).closedWith, states]).toEqual([1, undefined, ['established']]);
    expect(clock.tasks).toBe(0);
  });

  it('moves to one that opens, and leaves its connection when that has resumed the session', async () => {
    const { webSocket, http, states, reconnecting, server, pass, last, transport, clock } = await setUp();
    const { session } = reconnecting;
    await pass(30_000);
    await session.send('over HTTP');
    expect(last(webSocket).sent).toEqual([]);
    last(webSocket).open();
    await pass(0);
    expect(last(webSocket).sent).toHaveLength(1);
    expect(last(http).closedWith).toBeUndefined();
    server.exchange();
    await pass(0);
    expect([last(http).closedWith, transport.name]).toEqual([CloseCode.TIMEOUT, 'websocket']);
    expect(states).toEqual(['established', 'suspended', 'established']);
    server.exchange();
    await session.send('over the WebSocket');
    server.exchange();
    expect([server.messages.length, server.hellos.length]).toEqual([2, 1]);
    last(http).lose();
    await pass(3_600_000);
    expect([webSocket.connections.length, http.connections.length, clock.tasks]).toEqual([2, 1, 0]);
  });

  it('returns to HTTP if a WebSocket opens and brings nothing', async () => {
    const { webSocket, http, states, server, pass, last, transport } = await setUp();
    await pass(30_000);
    last(webSocket).open();
    await pass(0);
    // HELLO was swallowed.
    last(webSocket).sent.splice(0);
    await pass(3_999);
    expect(last(webSocket).closedWith).toBeUndefined();
    await pass(1);
    expect(last(webSocket).closedWith).toBe(CloseCode.TIMEOUT);
    await pass(100);
    expect(http.connections).toHaveLength(2);
    last(http).open();
    server.exchange();
    await pass(0);
    expect([states.at(-1), transport.name]).toEqual(['established', 'http']);
    // The next one counts from here.
    await pass(89_000);
    expect(webSocket.connections).toHaveLength(2);
    await pass(1_000);
    expect(webSocket.connections).toHaveLength(3);
  });

  it('begins to look anew after a WebSocket that has lived', async () => {
    const { webSocket, http, server, pass, last, transport } = await setUp();
    await pass(30_000);
    last(webSocket).open();
    await pass(0);
    server.exchange();
    await pass(5_000);
    last(webSocket).lose();
    await pass(100);
    last(webSocket).lose();
    await pass(0);
    last(http).open();
    server.exchange();
    await pass(0);
    expect(transport.name).toBe('http');
    const { length } = webSocket.connections;
    await pass(30_000);
    expect(webSocket.connections).toHaveLength(length + 1);
  });

  it('gives a WebSocket up that opens when the connection over HTTP is lost', async () => {
    const { webSocket, http, server, states, pass, last } = await setUp();
    await pass(30_000);
    last(http).lose();
    expect(last(webSocket).closedWith).toBe(CloseCode.TIMEOUT);
    last(webSocket).open();
    await pass(100);
    last(http).open();
    server.exchange();
    await pass(0);
    expect([webSocket.connections.length, http.connections.length]).toEqual([2, 2]);
    expect(states.at(-1)).toBe('established');
  });

  it('looks for none if it could not be resumed there', async () => {
    const { webSocket, pass } = await setUp({ resumes: false });
    await pass(3_600_000);
    expect(webSocket.connections).toHaveLength(1);
  });

  it('leaves no timer behind when it is closed', async () => {
    const { webSocket, reconnecting, server, pass, last, clock } = await setUp();
    await pass(30_000);
    const closed = reconnecting.session.close();
    for (let round = 0; round < 4; round++) {
      await pass(0);
      server.exchange();
    }
    await closed;
    expect([last(webSocket).closedWith, clock.tasks]).toEqual([CloseCode.TIMEOUT, 0]);
    await pass(3_600_000);
    expect(webSocket.connections).toHaveLength(2);
  });
});
