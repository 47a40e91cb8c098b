import {
  BodyCodec,
  CloseCode,
  createSession,
  Extension,
  encodeControl,
  resolveLimits,
  resolveTimers,
  type SessionCore,
  type SessionState,
  Subprotocol,
} from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { createBackoff } from '../connection/backoff.js';
import { Dialer } from '../connection/dialer.js';
import { MemoryServer } from '../connection/testing/memory-server.js';
import { type MemoryConnection, MemoryTransport } from '../connection/testing/memory-transport.js';
import { settled, VirtualClock } from '../connection/testing/virtual-clock.js';
import { ReconnectingSession } from './reconnecting-session.js';

/** A client that its server asks to move, with its dialer, in virtual time and over connections that the test opens and closes. */

const OPTIONS = {
  subprotocol: Subprotocol.BINARY,
  capabilities: {
    securityScanning: false,
    maxPayloadSize: 0,
    algorithms: ['NONE'] as const,
    encodings: [],
    vocabularies: {},
    extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}', [Extension.MOVE]: '1' },
  },
  limits: resolveLimits(),
  timers: resolveTimers({ resumeWindowMs: 60_000, acceptTimeoutMs: 10_000 }),
};

async function setUp() {
  const clock = new VirtualClock();
  const transport = new MemoryTransport();
  const { connections } = transport;
  const pass = async (ms: number) => {
    await clock.pass(ms);
    await settled();
  };
  const warnings: object[] = [];
  const states: SessionState[] = [];
  const logger = { debug() {}, info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) };
  const reconnecting: ReconnectingSession = new ReconnectingSession({
    createCore: () => createSession({ ...OPTIONS, role: 'client' }),
    isRenewed: true,
    agentId: undefined,
    endpoint: { clock, limits: OPTIONS.limits, role: 'client', logger },
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
  const dialer: Dialer = new Dialer({
    url: new URL('ws://test'),
    transport,
    timers: { acceptTimeoutMs: 5_000 },
    firstTimeoutMs: 5_000,
    backoff: createBackoff({ minDelayMs: 100, maxDelayMs: 1_000 }),
    clock,
    logger,
    askToken: async () => undefined,
    session: reconnecting,
  });

  const end = new MemoryServer(transport, OPTIONS, clock);
  const exchange = () => end.exchange();
  const open = (index: number): MemoryConnection => {
    const connection = connections[index] as MemoryConnection;
    connection.open();
    return connection;
  };
  const goAway = (deadline = 30_000, retryAfterMs = 2_000) => {
    end.core.sendGoAway({ retryAfterMs, deadline, move: true }, clock.now());
    end.answer();
  };
  /** The server drains, and its successor will not. */
  const goAwayOfAnother = () => {
    const payload = { retryAfterMs: 1, deadline: 30_000 };
    const frame = encodeControl({ type: 'GOAWAY', sessionId: 'sess_one', timestamp: 1, payload });
    end.present?.receive(frame);
  };

  dialer.dial(undefined);
  open(0);
  exchange();
  await settled();
  exchange();
  return {
    ...{
      reconnecting,
      session: reconnecting.session,
      dialer,
      server: end.core,
      connections,
      states,
      warnings,
    },
    ...{ messages: end.messages, hellos: end.hellos, pass, exchange, open, goAway, goAwayOfAnother },
    ...{
      take: (from: MemoryConnection) => end.take(from),
      answer: (to?: MemoryConnection) => end.answer(to),
    },
    tasks: () => clock.tasks,
  };
}

const tell = (core: SessionCore, number: number) => {
  const bytes = Uint8Array.of(number);
  const body = { codec: BodyCodec.PLAIN, bytes, originalLength: 1, secret: false, metadata: undefined };
  core.channel.send(body);
};

describe('a client that is asked to move', () => {
  it('opens another connection within the time it was given, while the present one continues', async () => {
    const { connections, goAway, pass, session, exchange, messages, states } = await setUp();
    goAway();
    expect(connections).toHaveLength(1);
    await pass(2_000);
    expect(connections).toHaveLength(2);
    await session.send('1');
    exchange();
    expect([messages.length, connections[0]?.closedWith, states]).toEqual([1, undefined, ['established']]);
  });

  it('does not drain', async () => {
    const { goAway, session, exchange, server } = await setUp();
    goAway();
    void session.request('a question').catch(() => {});
    await Promise.resolve();
    exchange();
    expect(server.channel.openStreams).toBe(1);
  });

  it('reads nothing more from the connection that it leaves, and closes it when it has resumed', async () => {
    const { connections, goAway, pass, open, server, answer, take, exchange, session, states, hellos } =
      await setUp();
    const read: string[] = [];
    void (async () => {
      for await (const message of session) read.push(String(message.bytes[0]));
    })();
    goAway();
    await pass(2_000);
    tell(server, 1);
    answer(connections[0]);
    const second = open(1);
    // The server has not read HELLO yet, and continues where it was.
    tell(server, 2);
    answer(connections[0]);
    expect([connections[0]?.closedWith, second.sent.length]).toEqual([undefined, 1]);
    take(second);
    expect(hellos[0]?.resume?.received).toBe(1);
    exchange();
    await pass(0);
    expect(connections[0]?.closedWith).toBe(CloseCode.TIMEOUT);
    tell(server, 3);
    exchange();
    await pass(0);
    expect(read).toEqual(['1', '2', '3']);
    expect(states).toEqual(['established', 'suspended', 'established']);
    // The close of the server comes too late to matter.
    connections[0]?.lose(CloseCode.TAKEN_OVER);
    expect(session.state).toBe('established');
  });

  it('sends again what the server has not received from the first connection', async () => {
    const { connections, goAway, pass, open, session, exchange, messages } = await setUp();
    goAway();
    await pass(2_000);
    await session.send('a');
    // Lost with the first connection.
    connections[0]?.sent.splice(0);
    open(1);
    exchange();
    exchange();
    await session.send('b');
    exchange();
    expect(messages).toHaveLength(2);
  });

  it('tries again if an attempt fails, and never loses the first connection', async () => {
    const { connections, goAway, pass, open, session, exchange, messages, states } = await setUp();
    goAway();
    await pass(2_000);
    for (let failed = 1; failed <= 3; failed++) {
      connections[failed]?.lose();
      await session.send('on the first connection');
      exchange();
      expect(messages).toHaveLength(failed);
      await pass(1_000);
      expect(connections).toHaveLength(failed + 2);
    }
    expect([connections[0]?.closedWith, states]).toEqual([undefined, ['established']]);
    open(4);
    exchange();
    expect(states).toEqual(['established', 'suspended', 'established']);
  });

  it('reconnects as usual, without the delay, if the first connection is lost before', async () => {
    const { connections, goAway, pass, open, exchange, states, tasks } = await setUp();
    goAway(30_000, 1_000_000);
    connections[0]?.lose();
    await pass(100);
    expect(connections).toHaveLength(2);
    open(1);
    exchange();
    await pass(0);
    expect(states.at(-1)).toBe('established');
    await pass(2_000_000);
    expect([connections.length, tasks()]).toEqual([2, 0]);
  });

  it('continues with the attempt under way if the first connection is lost meanwhile', async () => {
    const { connections, goAway, pass, open, exchange, hellos, states } = await setUp();
    goAway();
    await pass(2_000);
    connections[0]?.lose();
    await pass(200);
    expect(connections).toHaveLength(2);
    open(1);
    exchange();
    await pass(10_000);
    expect([connections.length, hellos.length, states.at(-1)]).toEqual([2, 1, 'established']);
  });

  it('reconnects if the second connection is lost before it has resumed the session', async () => {
    const { connections, goAway, pass, open, exchange, hellos, states } = await setUp();
    goAway();
    await pass(2_000);
    const second = open(1);
    second.sent.splice(0);
    second.lose();
    await pass(100);
    expect(connections).toHaveLength(3);
    open(2);
    // Not with a code that ends the session, because the server may still read from it.
    expect(connections[0]?.closedWith).toBe(CloseCode.TIMEOUT);
    exchange();
    expect([states.at(-1), hellos.map(({ resume }) => resume?.attempt)]).toEqual(['established', [2]]);
  });

  it('moves five times for one deadline if it always reaches the same server, and again for another one', async () => {
    const { connections, goAway, pass, open, exchange, warnings, states } = await setUp();
    const move = async (deadline: number) => {
      goAway(deadline);
      await pass(2_000);
      if (connections.length === 1 || connections.at(-1)?.closedWith !== undefined) return;
      open(connections.length - 1);
      exchange();
    };
    for (let i = 0; i < 5; i++) await move(30_000);
    expect([connections.length, warnings]).toEqual([6, []]);
    goAway(30_000);
    await pass(60_000);
    expect([connections.length, warnings]).toEqual([6, [{ event: 'session.warning' }]]);
    await move(90_000);
    expect([connections.length, states.at(-1)]).toEqual([7, 'established']);
  });

  it('ignores GOAWAY that is repeated before it has moved', async () => {
    const { connections, goAway, pass } = await setUp();
    goAway(30_000);
    goAway(31_000);
    await pass(2_000);
    goAway(32_000);
    await pass(4_000);
    expect(connections).toHaveLength(2);
  });

  it('continues with a new session if its server is shut down before it has moved', async () => {
    const { server, goAway, exchange, session, pass, states, connections } = await setUp();
    goAway(30_000, 1_000_000);
    server.close('SERVER_SHUTDOWN', '', 0);
    for (let round = 0; round < 4; round++) {
      exchange();
      await pass(0);
    }
    expect([session.state, states]).toEqual(['connecting', ['established', 'closing', 'connecting']]);
    await pass(1_000_000);
    expect(connections).toHaveLength(2);
  });

  it('still closes in order, on whichever connection', async () => {
    const { goAway, pass, open, session, exchange, reconnecting, connections, tasks, messages } =
      await setUp();
    goAway();
    await pass(2_000);
    await session.send('the last one');
    const closed = session.close();
    await pass(0);
    open(1);
    for (let round = 0; round < 4; round++) {
      exchange();
      await pass(0);
    }
    await closed;
    expect([session.state, messages.length, reconnecting.needsWire]).toEqual(['closed', 1, false]);
    expect(connections.map(({ closedWith }) => closedWith)).toEqual([CloseCode.TIMEOUT, CloseCode.NORMAL]);
    expect(tasks()).toBe(0);
  });

  it('leaves neither timer nor connection behind if it closes before the next connection is open', async () => {
    const { goAway, pass, session, exchange, connections, tasks } = await setUp();
    goAway();
    await pass(2_000);
    const closed = session.close();
    await pass(0);
    for (let round = 0; round < 4; round++) {
      exchange();
      await pass(0);
    }
    await closed;
    expect(connections.map(({ closedWith }) => closedWith)).toEqual([CloseCode.NORMAL, CloseCode.NORMAL]);
    connections[1]?.lose();
    await pass(60_000);
    expect([connections.length, tasks()]).toEqual([2, 0]);
  });

  it('stops a move that has not begun when it closes', async () => {
    const { goAway, pass, session, exchange, connections, tasks } = await setUp();
    goAway(30_000, 1_000_000);
    const closed = session.close();
    await pass(0);
    for (let round = 0; round < 4; round++) {
      exchange();
      await pass(0);
    }
    await closed;
    expect([connections.length, tasks()]).toEqual([1, 0]);
  });

  it('continues with its session if it has drained and comes back to a server that does not drain', async () => {
    const { connections, pass, open, exchange, session, states, goAwayOfAnother } = await setUp();
    void session.request('an open reply keeps the client from leaving').catch(() => {});
    await pass(0);
    exchange();
    goAwayOfAnother();
    await expect(session.request('refused')).rejects.toMatchObject({ code: 'draining' });
    connections[0]?.lose();
    await pass(100);
    open(1);
    exchange();
    await pass(0);
    void session.request('accepted').catch(() => {});
    await pass(0);
    exchange();
    expect([states, connections.length]).toEqual([['established', 'suspended', 'established'], 2]);
  });
});
