import { expect, it } from 'vitest';
import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { MemoryBudget } from '../base/memory-budget.js';
import { BodyCodec } from '../codec/body.js';
import { CloseReason } from '../control/messages.js';
import type { Clock } from '../platform/clock.js';
import { createSession } from '../session/create.js';
import { TEST_CAPABILITIES } from '../testing/simulation.js';
import { Endpoint } from './endpoint.js';
import type { EndpointOptions } from './endpoint-options.js';
import type { Wire } from './ports.js';

/** An endpoint on a wire, with the core of a server at the other end. */

const MIB = 1024 * 1024;
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

/** A wire that buffers all frames until the test takes them. */
class TestWire implements Wire {
  bufferedAmount = 0;
  highWater: number | undefined;
  readonly frames: (Uint8Array | string)[] = [];
  send(frame: Uint8Array | string): void {
    this.bufferedAmount += frame.length;
    this.frames.push(frame.slice());
  }
  isPaused = false;
  pause(): void {
    this.isPaused = true;
  }
  resume(): void {
    this.isPaused = false;
  }
  close(): void {}
}

/** @param extensions of the server. */
function setUp(
  given: Partial<EndpointOptions> = {},
  extensions: Readonly<Record<string, string>> = OPTIONS.capabilities.extensions,
) {
  const clock: Clock = {
    timeOrigin: 0,
    now: () => 0,
    after: () => () => {},
    soon: () => {},
    yield: () => Promise.resolve(),
  };
  const core = createSession({ ...OPTIONS, role: 'client' });
  const endpoint = new Endpoint({ core, clock, limits: LIMITS, role: 'client', ...given });
  /** Opens a connection to a server without sessions. Resolves when the endpoint is ready. */
  const connect = async () => {
    const capabilities = { ...OPTIONS.capabilities, extensions };
    const server = createSession({ ...OPTIONS, capabilities, role: 'server' });
    const wire = new TestWire();
    const exchange = () => {
      for (const frame of wire.frames.splice(0)) server.handleMessage(frame, 0);
      wire.bufferedAmount = 0;
      for (let event = server.pollEvent(); event !== undefined; event = server.pollEvent()) {
        if (event.type === 'hello') server.accept('session', 0);
      }
      for (let frame = server.pollTransmit(); frame !== undefined; frame = server.pollTransmit())
        endpoint.handleMessage(frame.slice(), wire);
    };
    server.handleConnected(0);
    endpoint.handleConnected(wire);
    exchange();
    await new Promise((resolve) => setTimeout(resolve, 0));
    return { wire, server, exchange };
  };
  return { endpoint, connect };
}

it.each([
  { highWater: undefined, most: 256 * 1024, rounds: 4 },
  { highWater: 128 * 1024, most: 128 * 1024, rounds: 8 },
])('passes at most $most bytes to a wire ahead of time, and the rest as it drains', async (given) => {
  const { highWater, most, rounds } = given;
  const { endpoint, connect } = setUp();
  const { wire, server, exchange } = await connect();
  wire.highWater = highWater;
  void endpoint.session.request(new Uint8Array(1_000_000)).catch(() => {});
  const fragment = 64 * 1024 + 100;
  expect(wire.bufferedAmount).toBeGreaterThan(most - fragment);
  expect(wire.bufferedAmount).toBeLessThan(most + fragment);
  for (let round = 0; round < rounds; round++) {
    exchange();
    endpoint.handleWritable();
  }
  expect(wire.bufferedAmount).toBe(0);
  expect(server.channel.framesUnconfirmed).toBe(0);
});

it('reports how much of a failed session was not delivered, also to later calls', async () => {
  const { endpoint, connect } = setUp();
  await connect();
  void endpoint.session.send('written');
  void endpoint.session.request('x'.repeat(100)).catch(() => {});
  const closing = endpoint.shutdown(CloseReason.NORMAL, '');
  endpoint.abort(new ProtocolError('internal', 'a fault'));
  expect(await closing).toEqual({ unacknowledged: 2 });
  expect(await endpoint.close()).toEqual({ unacknowledged: 2 });
});

it('withdraws a message whose signal aborts before any of it is written', async () => {
  const { endpoint, connect } = setUp();
  const { exchange } = await connect();
  const { session } = endpoint;
  const written = new AbortController();
  await session.send('w', { signal: written.signal });
  written.abort();
  exchange();
  expect(session.stats().sent.messages).toBe(1);

  // Uses up the credit of 1,000.
  await session.send('x'.repeat(967));
  const queued = new AbortController();
  await session.send('y'.repeat(500), { signal: queued.signal });
  expect(endpoint.core.queuedBytes).toBe(500);
  queued.abort();
  exchange();
  expect([session.stats().sent.messages, endpoint.core.queuedBytes]).toEqual([2, 0]);

  const waiting = new AbortController();
  const sent = session.send('v'.repeat(300 * 1024), { signal: waiting.signal });
  waiting.abort(new Error('gone'));
  await expect(sent).rejects.toThrow('gone');
  expect(endpoint.core.queuedBytes).toBe(0);
});

it('reads on when it has dropped the bare messages that it was full of', async () => {
  const memory = new MemoryBudget(64 * MIB);
  const others = memory.open(64 * MIB).tryReserve(63 * MIB);
  const { endpoint, connect } = setUp({ memory, takesMessages: false }, {});
  const { wire, server, exchange } = await connect();
  const bytes = new Uint8Array(5 * MIB);
  const body = { codec: BodyCodec.PLAIN, bytes, originalLength: bytes.length, secret: false };
  server.channel.send({ ...body, metadata: undefined });
  exchange();
  expect([endpoint.core.isFull, wire.isPaused]).toEqual([true, true]);
  others?.release();
  await Promise.resolve();
  expect([endpoint.core.isFull, wire.isPaused]).toEqual([false, false]);
});
