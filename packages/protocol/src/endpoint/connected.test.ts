import { expect, it } from 'vitest';
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

const _send = (core: SessionCore, text: string) =>
  core.channel.send(plainBody(new TextEncoder().encode(text)));

it('hands a socket at most 256 KiB ahead of time, and the rest as it drains', async () => {
  const { endpoint, connect } = await setUp();
  const { wire, server, exchange } = await connect();
  void endpoint.session.request(new Uint8Array(1_000_000)).catch(() => {});
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

it('tells of a session that failed how much of it was not delivered, also when it is asked afterwards', async () => {
  const { endpoint, connect } = await setUp();
  await connect();
  void endpoint.session.send('written');
  void endpoint.session.request('x'.repeat(100)).catch(() => {});
  const closing = endpoint.shutdown(CloseReason.NORMAL, '');
  endpoint.abort(new ProtocolError('internal', 'a fault'));
  expect(await closing).toEqual({ unacknowledged: 2 });
  expect(await endpoint.close()).toEqual({ unacknowledged: 2 });
});
