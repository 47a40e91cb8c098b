import { type ClientOptions, type ClientSession, connect } from '@parlance/client';
import { ProtocolError } from '@parlance/protocol';
import type { Server } from '../create-server.js';
import { createServer } from '../create-server.js';
import type { ServerOptions } from '../server/server-options.js';
import { VirtualClock } from './clock.js';
import { MemoryNetwork } from './network.js';

export { createFakeUpstream, type FakeAnswer, type FakeUpstream, type UpstreamRequest } from './upstream.js';

/** A server and clients in one process, without ports, whose time and whose connections a test controls. */
export interface TestServer extends AsyncDisposable {
  readonly server: Server;
  /** Connects a client, as `connect` of `@parlance/client` does. Every client is at the address 127.0.0.1. */
  connect(options?: Omit<ClientOptions, 'WebSocket'>): Promise<ClientSession>;
  /** All connections of this server. */
  readonly network: TestNetwork;
  readonly clock: TestClock;
  /** Closes clients and server, and gives the process its timers back. */
  close(): Promise<void>;
}

export interface TestNetwork {
  /** Breaks every connection; bytes in flight are lost. Clients come back when time passes. */
  cut(): void;
  /** Breaks every connection, and new ones fail until {@link up}. */
  down(): void;
  up(): void;
  /** Nothing arrives any more, and neither end notices before its timers do. */
  freeze(): void;
  /** Everything arrives that was sent since {@link freeze}. */
  thaw(): void;
}

export interface TestClock {
  /** Milliseconds that have passed. */
  readonly now: number;
  /**
   * Lets `ms` pass: runs the timers that fall due, those of handlers included, and everything that follows from them.
   * 0 lets everything happen that needs no time.
   */
  advance(ms: number): Promise<void>;
}

export interface TestServerOptions extends ServerOptions {
  /**
   * `'virtual'`: timers of the whole process, `Date.now` and `performance.now` stand still until `clock.advance`, also those
   * of handlers and of the test. One server at a time has them. `'real'`: time passes by itself. @default 'virtual'
   */
  readonly time?: 'virtual' | 'real' | undefined;
}

/** Turns of the event loop without a byte, after which nothing is under way. */
const IDLE_TURNS = 6;

let isTimeTaken = false;

/**
 * Creates a server for tests of handlers. It uses no test runner.
 *
 *     await using test = await createTestServer({ onRequest });
 *     const session = await test.connect();
 *
 * @throws {ProtocolError} `invalid_option`; `invalid_argument` if another server has the time of the process.
 */
export async function createTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const { time = 'virtual', ...serverOptions } = options;
  if (time !== 'virtual' && time !== 'real') {
    throw new ProtocolError('invalid_option', `time: expected 'virtual' or 'real', not ${String(time)}`);
  }
  const isVirtual = time === 'virtual';
  if (isVirtual && isTimeTaken) {
    throw new ProtocolError(
      'invalid_argument',
      'another server has the time of this process; close it first',
    );
  }
  const network = new MemoryNetwork();
  const settle = () => settled(network);
  const clock = new VirtualClock(settle);
  if (isVirtual) {
    isTimeTaken = true;
    clock.install();
  }
  const release = (): void => {
    network.close();
    if (!isVirtual) return;
    clock.uninstall();
    isTimeTaken = false;
  };
  let server: Server;
  try {
    server = createServer(serverOptions);
    server.attach(network.http);
  } catch (error) {
    release();
    throw error;
  }
  const sessions = new Set<ClientSession>();
  const url = `ws://127.0.0.1${options.path ?? '/session'}`;
  const began = performance.now();
  let closing: Promise<void> | undefined;

  async function close(): Promise<void> {
    network.up();
    network.thaw();
    const closed = Promise.all([...sessions].map((session) => session.close())).then(() =>
      server.close({ sessions: 'end' }),
    );
    let isClosed = false;
    const done = closed.finally(() => {
      isClosed = true;
    });
    // A client whose connection is gone comes back, or gives up, when time passes.
    while (isVirtual && !isClosed) {
      await settle();
      if (!isClosed) await clock.advance(CLOSING_STEP_MS);
    }
    await done;
    release();
  }

  const test: TestServer = {
    server,
    network,
    async connect(given = {}) {
      const session = await connect(url, { ...given, WebSocket: network.WebSocket });
      sessions.add(session);
      return session;
    },
    clock: {
      get now() {
        return isVirtual ? clock.now : performance.now() - began;
      },
      async advance(ms) {
        if (isVirtual) return await clock.advance(ms);
        await new Promise((resolve) => setTimeout(resolve, ms));
        await settle();
      },
    },
    close() {
      closing ??= close();
      return closing;
    },
    async [Symbol.asyncDispose]() {
      await test.close();
    },
  };
  return test;
}

const CLOSING_STEP_MS = 100;

/** Resolves when no byte has moved for some ticks of the event loop. */
async function settled(network: MemoryNetwork): Promise<void> {
  let before = network.activity;
  for (let idle = 0; idle < IDLE_TURNS; idle++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (network.activity !== before) idle = -1;
    before = network.activity;
  }
}
