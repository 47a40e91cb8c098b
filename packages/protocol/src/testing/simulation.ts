import { Algorithm, EncodingName, Extension, Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { decodeControl } from '../control/envelope.js';
import { createSession } from '../session/create.js';
import { restoreSession } from '../session/create-server.js';
import type { Ticket } from '../session/resume-ticket.js';
import { ServerCore } from '../session/server-core.js';
import type { ServerSessionCore, SessionCore, SessionEvent, SessionOptions } from '../session/types.js';

/**
 * Two session cores connected back to back over a simulated link, in virtual time: the main test bench.
 * Frames arrive in order after `delayMs`, and are lost with the connection. A client may change to a second connection
 * while the first one works: frames under way on the first one still arrive at the server until HELLO does.
 */

export interface End {
  /** Replaced by {@link Simulation.move} at the server. */
  core: SessionCore;
  /** Every event that the application received, in order. */
  readonly events: SessionEvent[];
  /** Every frame this end has written. */
  readonly sent: (Uint8Array | string)[];
  /** The close code that this end closed the connection with. */
  closedWith: { readonly code: number; readonly reason: string } | undefined;
}

export interface Simulation {
  /** The present page. */
  readonly client: End;
  readonly server: End;
  readonly now: number;
  /** Delivers frames until nothing is left to do at the present instant. */
  settle(): void;
  /** Lets `ms` pass and runs every delivery and timeout that falls due. */
  advance(ms: number): void;
  /** Cuts the connection; frames in flight are lost. */
  cut(code?: number): void;
  /**
   * Opens another connection. Its HELLO resumes the session if the server's core allows it; otherwise it
   * begins a new session, `sess_other`, and ACCEPT states the reason.
   */
  reconnect(): void;
  /** Leaves the connection for another one, which is open already, and resumes the session there. */
  swap(options?: SwapOptions): void;
  /**
   * Replaces the client by another one that takes its session up, as a page does that is loaded again.
   *
   * @param ticket what differs from the ticket of the former page. @default nothing
   */
  reload(ticket?: Partial<Ticket>): void;
  /**
   * Moves the server's end to another process, whose clock shows another time. The connection goes with it.
   *
   * @param change what arrives in place of the snapshot. @default the snapshot
   * @returns whether the session could move.
   * @throws {ProtocolError} as `restoreSession`.
   */
  move(change?: (snapshot: Uint8Array) => Uint8Array): boolean;
  /** Lets the server's end rest. Returns whether it was awake, and rests. */
  rest(): boolean;
  /** The server's end as bytes. @throws {ProtocolError} `invalid_argument` if it cannot move now. */
  snapshot(): Uint8Array;
  /** Puts a frame on the wire as if `from` had sent it. */
  inject(from: 'client' | 'server', frame: Uint8Array | string): void;
}

export interface SimulationOptions {
  readonly client?: Partial<SessionOptions>;
  readonly server?: Partial<SessionOptions>;
  /** @default 0 */
  readonly delayMs?: number;
  /** Replaces a frame in flight; it receives a copy. @default no change */
  readonly tamper?: ((frame: Uint8Array, from: End) => Uint8Array) | undefined;
  /** Answers a HELLO at the server. @default accepts it as `sess_test` */
  readonly onHello?: (core: SessionCore, now: number) => void;
}

export interface SwapOptions {
  /** Of each message on the new connection. @default that of all connections */
  readonly delayMs?: number;
  /** The client closes the connection that it leaves, at once. @default it leaves that to the server */
  readonly closeCode?: number;
  /** A fault: an end that continues reading from the connection that the client has left. @default none */
  readonly readsOn?: 'client' | 'server' | undefined;
  /** The bytes that arrive in place of HELLO. @default HELLO */
  readonly changeHello?: ((hello: Uint8Array) => Uint8Array) | undefined;
}

interface Delivery {
  readonly at: number;
  /** The number of the connection. */
  readonly on: number;
  readonly to: End;
  readonly frame: Uint8Array | string | { readonly code: number; readonly reason: string };
}

export const TEST_CAPABILITIES: SessionOptions['capabilities'] = {
  algorithms: [Algorithm.M2M, Algorithm.TOKEN_NATIVE, Algorithm.BROTLI, Algorithm.NONE],
  encodings: [EncodingName.CL100K_BASE],
  vocabularies: {},
  securityScanning: false,
  maxPayloadSize: 0,
  extensions: { [Extension.LINK]: '{}' },
};

export function createSimulation(options: SimulationOptions = {}): Simulation {
  const { delayMs = 0, onHello = (core, now) => void core.accept('sess_test', now) } = options;
  const common = {
    subprotocol: Subprotocol.BINARY,
    capabilities: TEST_CAPABILITIES,
    limits: resolveLimits(),
    timers: resolveTimers(),
  };
  const end = (role: 'client' | 'server', overrides: Partial<SessionOptions> = {}): End => ({
    core: createSession({ ...common, role, ...overrides }),
    events: [],
    sent: [],
    closedWith: undefined,
  });
  let client = end('client', options.client);
  const server = end('server', options.server);
  let now = 0;
  /** How far the clock of the server's process is ahead. */
  let ahead = 0;
  const serverNow = () => now + ahead;
  const clockOf = (end: End) => (end === server ? serverNow() : now);
  let isCut = false;
  /** The connections that the ends use. The server changes to another one when a HELLO arrives there. */
  const present = { client: 0, server: 0 };
  const delays = [delayMs];
  let swapped: SwapOptions = {};
  let wire: Delivery[] = [];
  const connectionOf = (end: End) => (end === server ? present.server : present.client);
  const push = (from: End, frame: Delivery['frame'], on = connectionOf(from)): void => {
    wire.push({ at: now + (delays[on] as number), on, to: peerOf(from), frame });
  };
  const connect = (connectionDelayMs: number): void => {
    present.client = delays.push(connectionDelayMs) - 1;
  };

  /** Copies the frame: a session reuses its memory once it is acknowledged. */
  const carry = (frame: Uint8Array | string, from: End) =>
    typeof frame === 'string' ? frame : (options.tamper?.(frame.slice(), from) ?? frame.slice());
  const movable = (): ServerSessionCore => {
    if (!(server.core instanceof ServerCore)) throw new Error('the end is not a server');
    return server.core;
  };
  const peerOf = (from: End) => (from === client ? server : client);

  /** Takes all frames and events of one end; a disconnect follows every frame sent before it. */
  const pump = (from: End): boolean => {
    let busy = false;
    let disconnect: End['closedWith'];
    for (;;) {
      let progress = false;
      for (let frame = from.core.pollTransmit(); frame !== undefined; frame = from.core.pollTransmit()) {
        from.sent.push(frame);
        if (!isCut) push(from, carry(frame, from));
        progress = true;
      }
      for (let event = from.core.pollEvent(); event !== undefined; event = from.core.pollEvent()) {
        from.events.push(event);
        progress = true;
        if (event.type === 'hello') onHello(from.core, clockOf(from));
        if (event.type === 'disconnect') disconnect ??= { code: event.closeCode, reason: event.reason };
      }
      if (!progress) break;
      busy = true;
    }
    if (disconnect !== undefined && from.closedWith === undefined) {
      from.closedWith = disconnect;
      if (!isCut) push(from, disconnect);
    }
    return busy;
  };

  const handleResumeHello = (frame: Uint8Array | string, on: number): void => {
    present.server = on;
    const message = decodeControl(frame as Uint8Array, common.limits);
    if (message.type !== 'HELLO' || message.payload.resume === undefined)
      throw new Error('expected a HELLO that resumes');
    // A page may be back before the server has noticed that the former one is gone.
    const { resume } = message.payload;
    const refusal = server.core.checkResume(message.payload, common.subprotocol);
    if (refusal === undefined) {
      server.core.handleDisconnected(1006, 'taken over', serverNow());
      return void server.core.resume(resume, serverNow());
    }
    if (refusal === 'stale_attempt') throw new Error(refusal);
    const other = end('server', options.server);
    other.core.handleConnected(now);
    other.core.handleMessage(frame, now);
    other.core.accept('sess_other', now, { refusal });
    const accept = other.core.pollTransmit();
    if (accept !== undefined) push(server, accept);
  };

  const isReading = (to: End, on: number): boolean =>
    on === connectionOf(to) || swapped.readsOn === (to === client ? 'client' : 'server');

  const deliver = (): boolean => {
    const due = wire.findIndex((delivery) => delivery.at <= now);
    if (due < 0) return false;
    const [{ to, frame, on }] = wire.splice(due, 1) as [Delivery];
    if (typeof frame === 'string' || frame instanceof Uint8Array) {
      if (to === server && on > present.server) handleResumeHello(frame, on);
      else if (isReading(to, on) && to.closedWith === undefined) to.core.handleMessage(frame, clockOf(to));
    } else if (on !== connectionOf(to)) {
      return true;
    } else if (on !== connectionOf(peerOf(to))) {
      to.core.handleDisconnected(frame.code, frame.reason, clockOf(to));
    } else {
      to.core.handleDisconnected(frame.code, frame.reason, clockOf(to));
      // The WebSocket closing handshake reports the same code to the end that began it.
      const peer = peerOf(to);
      peer.core.handleDisconnected(frame.code, frame.reason, clockOf(peer));
    }
    return true;
  };

  const simulation: Simulation = {
    get client() {
      return client;
    },
    server,
    get now() {
      return now;
    },
    settle() {
      for (let round = 0; ; round++) {
        if (round > 1_000_000) throw new Error('the two ends never settle');
        const busy = [pump(client), pump(server), deliver()];
        if (!busy.includes(true)) return;
      }
    },
    advance(ms) {
      const until = now + ms;
      for (;;) {
        simulation.settle();
        const next = Math.min(
          client.core.nextTimeout(),
          server.core.nextTimeout() - ahead,
          ...wire.map((delivery) => delivery.at),
        );
        if (next > until) break;
        now = Math.max(now, next);
        client.core.handleTimeout(now);
        server.core.handleTimeout(serverNow());
      }
      now = until;
      simulation.settle();
    },
    cut(code = 1006) {
      isCut = true;
      wire = [];
      client.core.handleDisconnected(code, '', now);
      server.core.handleDisconnected(code, '', serverNow());
      simulation.settle();
    },
    reconnect() {
      isCut = false;
      connect(delayMs);
      client.closedWith = undefined;
      server.closedWith = undefined;
      client.core.handleConnected(now);
      simulation.settle();
    },
    swap(options = {}) {
      simulation.settle();
      const left = present.client;
      swapped = options;
      connect(options.delayMs ?? delayMs);
      client.core.handleDisconnected(1006, '', now);
      client.core.handleConnected(now);
      const hello = client.core.pollTransmit() as Uint8Array;
      client.sent.push(hello);
      push(client, options.changeHello?.(hello) ?? hello.slice());
      if (options.closeCode !== undefined) push(client, { code: options.closeCode, reason: '' }, left);
      simulation.settle();
    },
    reload(changes) {
      const ticket = { ...client.core.ticket, ...changes };
      client = end('client', { ...options.client, ticket: ticket as Ticket });
      wire = [];
      simulation.reconnect();
    },
    move(change = (snapshot) => snapshot) {
      if (!movable().canSnapshot) return false;
      const snapshot = change(simulation.snapshot());
      ahead += CLOCK_STEP;
      server.core = restoreSession({ ...common, role: 'server', ...options.server }, snapshot, serverNow());
      return true;
    },
    rest: () => movable().isAwake && movable().rest(serverNow()),
    snapshot: () => movable().snapshot(serverNow()),
    inject(from, frame) {
      push(from === 'client' ? client : server, frame);
    },
  };
  client.core.handleConnected(now);
  server.core.handleConnected(now);
  return simulation;
}

/** Milliseconds by which the clocks of two processes differ. */
const CLOCK_STEP = 123_456_789;

/** The events of one type, narrowed. */
export function eventsOf<Type extends SessionEvent['type']>(
  end: End,
  type: Type,
): Extract<SessionEvent, { type: Type }>[] {
  return end.events.filter((event) => event.type === type) as Extract<SessionEvent, { type: Type }>[];
}
