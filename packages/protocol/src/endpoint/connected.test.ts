import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { plainBody } from '../codec/body.js';
import { CloseReason } from '../control/messages.js';
import type { Clock } from '../platform/clock.js';
import { createSession } from '../session/session.js';
import type { SessionCore } from '../session/types.js';
import { TEST_CAPABILITIES } from '../testing/simulation.js';
import { Endpoint } from './endpoint.js';
import type { Wire } from './ports.js';

/** An endpoint on a wire, with the core of a server at its other end. */

const LIMITS = resolveLimits();
const OPTIONS = {
  subprotocol: Subprotocol.BINARY,
  capabilities: {
    ...TEST_CAPABILITIES,
    algorithms: ['NONE'] as const,
    encodings: [],
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
  const endpoint = new Endpoint({
    core: createClient(),
    renew: createClient,
    clock,
    limits: LIMITS,
    role: 'client',
    onAccepted: () => told.push('accepted'),
    onReady: () => told.push('ready'),
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
        endpoint.handleMessage(frame.slice(), wire);
    };
    server.handleConnected(now);
    endpoint.handleConnected(wire);
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
    endpoint.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    now += 10_000;
    endpoint.handleTick();
  };
  return { endpoint, dial, loaded, connect, lose, told };
}

const send = (core: SessionCore, text: string) =>
  core.channel.send(plainBody(new TextEncoder().encode(text)));

it('hands a socket at most 256 KiB ahead of time, and the rest as it drains', async () => {
  const { endpoint, connect } = await setUp();
  const { wire, server, exchange } = await connect();
  void endpoint.request(new Uint8Array(1_000_000)).catch(() => {});
  const fragment = 64 * 1024 + 100;
  expect(wire.bufferedAmount).toBeGreaterThan(256 * 1024 - fragment);
  expect(wire.bufferedAmount).toBeLessThan(256 * 1024 + fragment);
  for (let round = 0; round < 4; round++) {
    exchange();
    endpoint.handleWritable();
  }
  expect(wire.bufferedAmount).toBe(0);
  expect(server.channel.framesUnconfirmed).toBe(0);
});

describe('messages that were acknowledged', () => {
  it('are handed out though their session is lost and nobody was reading, and then the loss', async () => {
    const { endpoint, connect, lose } = await setUp();
    const first = await connect();
    for (const text of ['one', 'two']) send(first.server, text);
    first.exchange();
    lose(first.wire);
    const second = await connect();
    expect(endpoint.state).toBe('established');
    send(second.server, 'three');
    second.exchange();

    const read: string[] = [];
    const readAll = async () => {
      for await (const message of endpoint) if (read.push(message.text) === 3) return;
    };
    await expect(readAll()).rejects.toMatchObject({ code: 'session_lost' });
    expect(read).toEqual(['one', 'two']);
    await readAll();
    expect(read).toEqual(['one', 'two', 'three']);
  });

  it('of several lost sessions are all handed out, each before its loss', async () => {
    const { endpoint, connect, lose } = await setUp();
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
      for await (const message of endpoint) if (read.push(message.text) === 4) return;
    };
    for (let lost = 0; lost < 3; lost++)
      await expect(readOne()).rejects.toMatchObject({ code: 'session_lost' });
    await readOne();
    expect(read).toEqual(['one', 'two', 'three', 'four']);
  });

  it('of a lost session give no credit to the next one', async () => {
    const { endpoint, connect, lose } = await setUp();
    const first = await connect();
    send(first.server, 'x'.repeat(900));
    first.exchange();
    const reader = endpoint[Symbol.asyncIterator]();
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
    const { endpoint, dial, loaded, told } = await setUp();
    const { wire, server, exchange } = dial();
    send(server, 'one');
    exchange();
    endpoint.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    expect(told).toEqual(['accepted', 'wire lost']);
    expect(server.channel.framesUnconfirmed).toBe(1);
    await loaded();
    expect(told).toEqual(['accepted', 'wire lost', 'ready']);
    expect(endpoint.state).toBe('suspended');
  });

  it('with its session makes room for another one, which alone is said to be ready', async () => {
    const { endpoint, dial, loaded, told } = await setUp({ extensions: { [Extension.LINK]: '{}' } });
    const first = dial();
    endpoint.handleDisconnected(CloseCode.ABNORMAL, '', first.wire);
    const states = [endpoint.state];
    await loaded();
    states.push(endpoint.state);
    expect(told).toEqual(['accepted', 'wire lost']);
    expect(states).toEqual(['connecting', 'connecting']);
    const second = dial();
    await loaded();
    expect(told).toEqual(['accepted', 'wire lost', 'accepted', 'ready']);
    expect(endpoint.state).toBe('established');
    send(second.server, 'two');
    second.exchange();
    const { value } = await endpoint[Symbol.asyncIterator]().next();
    expect(value.text).toBe('two');
  });
});

it('a session that ends while its codecs are loaded is never said to be ready', async () => {
  const { endpoint, dial, loaded, told } = await setUp();
  const { wire } = dial();
  endpoint.handleDisconnected(CloseCode.FORBIDDEN, '', wire);
  await loaded();
  expect(told).not.toContain('ready');
  expect(told).toContain('ended');
});

it('hears of a server that drains although the codecs of the session are not loaded yet', async () => {
  const { endpoint, dial, loaded } = await setUp();
  const { server, exchange } = dial();
  server.sendGoAway({ deadline: 1, retryAfterMs: 2 }, 0);
  exchange();
  await loaded();
  exchange();
  // It has left, and waits for the next session.
  expect([server.state, endpoint.state]).toEqual(['closing', 'connecting']);
});

it('tells of a session that failed how much of it was not delivered, also when it is asked afterwards', async () => {
  const { endpoint, connect } = await setUp();
  await connect();
  void endpoint.send('written');
  void endpoint.request('x'.repeat(100)).catch(() => {});
  const closing = endpoint.shutdown(CloseReason.NORMAL, '');
  endpoint.abort(new ProtocolError('internal', 'a fault'));
  expect(await closing).toEqual({ unacknowledged: 2 });
  expect(await endpoint.close()).toEqual({ unacknowledged: 2 });
});

it('a session that another one has taken the connection of does not close it when its time is over', () => {
  let now = 0;
  const core = createSession({ ...OPTIONS, role: 'server' });
  const clock = { timeOrigin: 0, now: () => now, after: () => () => {}, soon() {}, yield: async () => {} };
  const endpoint = new Endpoint({ core, clock, limits: LIMITS, role: 'server' });
  const closed: number[] = [];
  const wire = Object.assign(new TestWire(), { close: (code: number) => void closed.push(code) });
  endpoint.handleConnected(wire);
  endpoint.abandon();
  now = OPTIONS.timers.helloTimeoutMs;
  endpoint.handleTick();
  expect(closed).toEqual([]);
});
