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
import type { Clock, Wire } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { Succession } from './succession.js';

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

/** A wire that takes everything and lets nothing out unless `drains`. */
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
  const told: string[] = [];
  const clock: Clock = {
    timeOrigin: 0,
    now: () => now,
    after: () => () => {},
    soon: () => {},
    yield: () => Promise.resolve(),
  };
  const succession = new Succession({
    createCore: createClient,
    isRenewed: true,
    agentId: undefined,
    endpoint: { clock, limits: LIMITS, role: 'client' },
    onReady: () => told.push('ready'),
    onState: () => {},
    onWireLost: () => told.push('wire lost'),
    onEnded: () => told.push('ended'),
  });
  /** Opens a connection to a server that knows of no session; codecs are not loaded yet. */
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
        succession.handleMessage(frame.slice(), wire);
    };
    server.handleConnected(now);
    succession.handleConnected(wire, undefined);
    exchange();
    return { wire, server, exchange };
  };
  /** Codecs are loaded, though there are none to load. */
  const loaded = () => new Promise((resolve) => setTimeout(resolve, 0));
  const connect = async () => {
    const connection = dial();
    await loaded();
    return connection;
  };
  /** Lets the connection go, and with it the session. */
  const lose = (wire: TestWire) => {
    succession.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    now += 10_000;
    succession.handleTick();
  };
  return { succession, session: succession.session, dial, loaded, connect, lose, told };
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

describe('messages that were acknowledged', () => {
  it('are handed out though their session is lost and nobody was reading, and then the loss', async () => {
    const { session, connect, lose } = await setUp();
    const first = await connect();
    for (const text of ['one', 'two']) send(first.server, text);
    first.exchange();
    lose(first.wire);
    const second = await connect();
    expect(session.state).toBe('established');
    send(second.server, 'three');
    second.exchange();

    const read: string[] = [];
    const readAll = async () => {
      for await (const message of session) if (read.push(message.text) === 3) return;
    };
    await expect(readAll()).rejects.toMatchObject({ code: 'session_lost' });
    expect(read).toEqual(['one', 'two']);
    await readAll();
    expect(read).toEqual(['one', 'two', 'three']);
  });

  it('of several lost sessions are all handed out, each before its loss', async () => {
    const { session, connect, lose } = await setUp();
    for (const text of ['one', 'two', 'three']) {
      const { wire, server, exchange } = await connect();
      send(server, text);
      exchange();
      lose(wire);
    }
    const { server, exchange } = await connect();
    send(server, 'four');
    exchange();
    const read: string[] = [];
    const readOne = async () => {
      for await (const message of session) if (read.push(message.text) === 4) return;
    };
    for (let lost = 0; lost < 3; lost++)
      await expect(readOne()).rejects.toMatchObject({ code: 'session_lost' });
    await readOne();
    expect(read).toEqual(['one', 'two', 'three', 'four']);
  });

  it('of a lost session give no credit to the next one', async () => {
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

describe('a connection that is lost while codecs are loaded', () => {
  it('is asked for again, and nothing that it had brought was acknowledged', async () => {
    const { succession, session, dial, loaded, told } = await setUp();
    const { wire, server, exchange } = dial();
    send(server, 'one');
    exchange();
    succession.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    expect([succession.isAccepted, told]).toEqual([true, ['wire lost']]);
    expect(server.channel.framesUnconfirmed).toBe(1);
    await loaded();
    expect(told).toEqual(['wire lost', 'ready']);
    expect(session.state).toBe('suspended');
  });

  it('with its session makes room for another one, which alone is said to be ready', async () => {
    const { succession, session, dial, loaded, told } = await setUp({
      extensions: { [Extension.LINK]: '{}' },
    });
    const first = dial();
    succession.handleDisconnected(CloseCode.ABNORMAL, '', first.wire);
    const states = [session.state];
    await loaded();
    states.push(session.state);
    expect([succession.isAccepted, told]).toEqual([true, ['wire lost']]);
    expect(states).toEqual(['connecting', 'connecting']);
    const second = dial();
    await loaded();
    expect(told).toEqual(['wire lost', 'ready']);
    expect(session.state).toBe('established');
    send(second.server, 'two');
    second.exchange();
    const { value } = await session[Symbol.asyncIterator]().next();
    expect(value?.text).toBe('two');
  });
});

it('a session that ends while its codecs are loaded is never said to be ready', async () => {
  const { succession, dial, loaded, told } = await setUp();
  const { wire } = dial();
  succession.handleDisconnected(CloseCode.FORBIDDEN, '', wire);
  await loaded();
  expect(told).not.toContain('ready');
  expect(told).toContain('ended');
});

it('hears of a server that drains although the codecs of the session are not loaded yet', async () => {
  const { session, dial, loaded } = await setUp();
  const { server, exchange } = dial();
  server.sendGoAway({ deadline: 1, retryAfterMs: 2 }, 0);
  exchange();
  await loaded();
  exchange();
  // It has left, and waits for the next session.
  expect([server.state, session.state]).toEqual(['closing', 'connecting']);
});
