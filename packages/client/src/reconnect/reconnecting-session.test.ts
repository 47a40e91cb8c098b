import {
  BodyCodec,
  CloseCode,
  createSession,
  Extension,
  resolveLimits,
  resolveTimers,
  type SessionCore,
  type StringMap,
  Subprotocol,
} from '@parlance/protocol';
import { type Clock, SILENT_LOGGER, type Wire } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { ReconnectingSession } from './reconnecting-session.js';

/** The sessions of a client on test wires, with the core of a server at the other end. */

const LIMITS = resolveLimits();
const OPTIONS = {
  subprotocol: Subprotocol.BINARY,
  capabilities: {
    securityScanning: false,
    maxPayloadSize: 0,
    algorithms: ['NONE'] as const,
    encodings: [],
    vocabularies: {},
    extensions: {
      [Extension.LINK]: JSON.stringify({ message_window: 1_000 }),
      [Extension.RESUME]: '{}',
    },
  },
  limits: LIMITS,
  timers: resolveTimers({ resumeWindowMs: 10_000 }),
};

/** A wire that buffers all frames until the test takes them. */
class TestWire implements Wire {
  bufferedAmount = 0;
  readonly frames: (Uint8Array | string)[] = [];
  send(frame: Uint8Array | string): void {
    this.bufferedAmount += frame.length;
    this.frames.push(frame.slice());
  }
  close(): void {}
}

async function setUp({ extensions = OPTIONS.capabilities.extensions }: { extensions?: StringMap } = {}) {
  let now = 0;
  const options = { ...OPTIONS, capabilities: { ...OPTIONS.capabilities, extensions } };
  const createClient = () => createSession({ ...options, role: 'client' });
  const reported: string[] = [];
  const clock: Clock = {
    timeOrigin: 0,
    now: () => now,
    after: () => () => {},
    soon: () => {},
    yield: () => Promise.resolve(),
  };
  const logged: unknown[] = [];
  const logger = { ...SILENT_LOGGER, warn: (fields: object) => void logged.push(fields) };
  const reconnecting = new ReconnectingSession({
    createCore: createClient,
    isRenewed: true,
    agentId: undefined,
    endpoint: { clock, limits: LIMITS, role: 'client', logger },
    onReady: () => reported.push('ready'),
    onState: () => {},
    onWireLost: () => reported.push('wire lost'),
    moveWithin: (withinMs) => reported.push(`move within ${withinMs}`),
    retryAt: () => undefined,
    onEnded: () => reported.push('ended'),
  });
  /** Opens a connection to a server without sessions. The codecs are not loaded yet. */
  const dial = (): { wire: TestWire; server: SessionCore; exchange: () => void } => {
    const server = createSession({ ...options, role: 'server' });
    const wire = new TestWire();
    const exchange = () => {
      for (const frame of wire.frames.splice(0)) server.handleMessage(frame, now);
      wire.bufferedAmount = 0;
      for (let event = server.pollEvent(); event !== undefined; event = server.pollEvent()) {
        if (event.type === 'hello') server.accept(`session at ${now}`, now);
      }
      for (let frame = server.pollTransmit(); frame !== undefined; frame = server.pollTransmit())
        reconnecting.handleMessage(frame.slice(), wire);
    };
    server.handleConnected(now);
    reconnecting.handleConnected(wire, undefined);
    exchange();
    return { wire, server, exchange };
  };
  /** Waits for the loading of codecs, although this session needs none. */
  const loaded = () => new Promise((resolve) => setTimeout(resolve, 0));
  const connect = async () => {
    const connection = dial();
    await loaded();
    return connection;
  };
  /** Loses the connection for so long that the session is lost. */
  const lose = (wire: TestWire) => {
    reconnecting.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    now += 10_000;
    reconnecting.handleTick();
  };
  return { reconnecting, session: reconnecting.session, dial, loaded, connect, lose, reported, logged };
}

const send = (core: SessionCore, text: string) => {
  const bytes = new TextEncoder().encode(text);
  core.channel.send({
    codec: BodyCodec.PLAIN,
    bytes,
    originalLength: bytes.length,
    secret: false,
    metadata: undefined,
  });
};

describe('acknowledged messages', () => {
  it('can be read after their session was lost, by the same reader and before those of the next one', async () => {
    const { session, connect, lose } = await setUp();
    const read: string[] = [];
    const reading = (async () => {
      for await (const message of session) {
        if (read.push(message.text) === 4) return;
        // The reader is slow, so that messages of all sessions wait for it.
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    })();
    for (const texts of [['one', 'two'], ['three'], []]) {
      const { wire, server, exchange } = await connect();
      for (const text of texts) send(server, text);
      exchange();
      lose(wire);
    }
    const { server, exchange } = await connect();
    expect(session.state).toBe('established');
    send(server, 'four');
    exchange();
    await reading;
    expect(read).toEqual(['one', 'two', 'three', 'four']);
  });

  it('of sessions that are lost one after the other are dropped, and that is logged, if nothing ever reads', async () => {
    const { session, connect, lose, logged } = await setUp();
    const loseWith = async (text: string) => {
      const { wire, server, exchange } = await connect();
      send(server, text);
      exchange();
      lose(wire);
    };
    for (let i = 0; i < 16; i++) await loseWith(`old ${i}`);
    expect(logged).toEqual([]);
    await loseWith('one too many');
    expect(logged).toEqual([{ event: 'message.unread', dropped: 17 }]);
    const { server, exchange } = await connect();
    send(server, 'new');
    exchange();
    const { value } = await session[Symbol.asyncIterator]().next();
    expect(value?.text).toBe('new');
  });

  it('of a lost session do not return credit to the next one', async () => {
    const { session, connect, lose } = await setUp();
    const first = await connect();
    send(first.server, 'x'.repeat(900));
    first.exchange();
    const reader = session[Symbol.asyncIterator]();
    lose(first.wire);
    const second = await connect();
    send(second.server, 'y'.repeat(900));
    send(second.server, 'z'.repeat(900));
    second.exchange();
    expect(second.server.isBlockedOnCredit).toBe(true);
    await reader.next();
    second.exchange();
    expect(second.server.isBlockedOnCredit).toBe(true);
  });
});

it.each(['error', 'reset', 'state'] as const)(
  'is not followed by another one if a listener of %s closes it',
  async (event) => {
    const { session, connect, lose, reported } = await setUp();
    const { wire } = await connect();
    const states: string[] = [];
    session.on('state', (state) => states.push(state));
    const reading = (async () => {
      for await (const _message of session);
    })();
    let closing: Promise<unknown> | undefined;
    session.on(event, (what: unknown) => {
      if (event !== 'state' || what === 'suspended') closing ??= session.close();
    });
    lose(wire);
    await closing;
    await reading.catch(() => {});
    expect(session.state).toBe('closed');
    expect(states.at(-1)).toBe('closed');
    expect(reported.at(-1)).toBe('ended');
    const { length } = reported;
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(reported).toHaveLength(length);
  },
);

describe('a connection that is lost while codecs are loaded', () => {
  it('is replaced, and none of its frames was acknowledged', async () => {
    const { reconnecting, session, dial, loaded, reported } = await setUp();
    const { wire, server, exchange } = dial();
    send(server, 'one');
    exchange();
    reconnecting.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    expect([reconnecting.isAccepted, reported]).toEqual([true, ['wire lost']]);
    expect(server.channel.framesUnconfirmed).toBe(1);
    await loaded();
    expect(reported).toEqual(['wire lost', 'ready']);
    expect(session.state).toBe('suspended');
  });

  it('together with its session is replaced, and only the new session is reported as ready', async () => {
    const { reconnecting, session, dial, loaded, reported } = await setUp({
      extensions: { [Extension.LINK]: '{}' },
    });
    const first = dial();
    reconnecting.handleDisconnected(CloseCode.ABNORMAL, '', first.wire);
    const states = [session.state];
    await loaded();
    states.push(session.state);
    expect([reconnecting.isAccepted, reported]).toEqual([true, ['wire lost']]);
    expect(states).toEqual(['connecting', 'connecting']);
    const second = dial();
    await loaded();
    expect(reported).toEqual(['wire lost', 'ready']);
    expect(session.state).toBe('established');
    send(second.server, 'two');
    second.exchange();
    const { value } = await session[Symbol.asyncIterator]().next();
    expect(value?.text).toBe('two');
  });
});

it('never reports a session as ready that ended while its codecs were loaded', async () => {
  const { reconnecting, dial, loaded, reported } = await setUp();
  const { wire } = dial();
  reconnecting.handleDisconnected(CloseCode.FORBIDDEN, '', wire);
  await loaded();
  expect(reported).not.toContain('ready');
  expect(reported).toContain('ended');
});

it('leaves a server that drains although the codecs of the session were not loaded yet', async () => {
  const { session, dial, loaded } = await setUp();
  const { server, exchange } = dial();
  server.sendGoAway({ deadline: 1, retryAfterMs: 2 }, 0);
  exchange();
  await loaded();
  exchange();
  // The client has closed the session, and waits for the next one.
  expect([server.state, session.state]).toEqual(['closing', 'connecting']);
});

describe('HELLO in an upgrade request', () => {
  it('is made only while there is no connection', async () => {
    const { reconnecting, connect, reported } = await setUp();
    expect(reconnecting.hello(undefined)).toBeInstanceOf(Uint8Array);
    const { wire } = await connect();
    expect(reconnecting.hello(undefined)).toBeUndefined();
    reconnecting.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    expect(reconnecting.hello(undefined)).toBeInstanceOf(Uint8Array);
    expect(reported).toEqual(['ready', 'wire lost']);
  });

  it('is not said again when the connection opens, and is counted', async () => {
    const { reconnecting } = await setUp();
    const hello = reconnecting.hello(undefined) as Uint8Array;
    const wire = new TestWire();
    reconnecting.handleConnected(wire, undefined, hello);
    expect(wire.frames).toEqual([]);
    expect(reconnecting.stats().sent.wireBytes).toBe(hello.length);
  });

  it('of a session that has ended since closes its connection, and another one is opened', async () => {
    const { reconnecting, connect, lose, reported } = await setUp();
    const { wire } = await connect();
    reconnecting.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    const hello = reconnecting.hello(undefined);
    const former = reconnecting.current;
    lose(wire);
    expect(reconnecting.current).not.toBe(former);
    reported.length = 0;
    const closed: number[] = [];
    const late = Object.assign(new TestWire(), { close: (code: number) => void closed.push(code) });
    reconnecting.handleConnected(late, undefined, hello);
    expect([closed, late.frames, reported]).toEqual([[CloseCode.NORMAL], [], ['wire lost']]);
    expect(reconnecting.current.wire).toBeUndefined();
  });
});
