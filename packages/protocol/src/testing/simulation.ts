import { Algorithm, EncodingName, Extension, Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { decodeControl } from '../control/envelope.js';
import { createSession } from '../session/session.js';
import type { SessionCore, SessionEvent, SessionOptions } from '../session/types.js';

/**
 * Two session cores wired back to back over a simulated link, in virtual time: the main test bench.
 * Frames take `delayMs`, keep their order and are lost with the connection.
 */

export interface End {
  readonly core: SessionCore;
  /** Everything the application was told, in order. */
  readonly events: SessionEvent[];
  /** Every frame this end has written. */
  readonly sent: (Uint8Array | string)[];
  /** The close code that this end closed the connection with. */
  closedWith: { readonly code: number; readonly reason: string } | undefined;
}

export interface Simulation {
  readonly client: End;
  readonly server: End;
  readonly now: number;
  /** Delivers and times out until nothing is left to do at this instant. */
  settle(): void;
  /** Lets `ms` pass, stepping through every delivery and timeout on the way. */
  advance(ms: number): void;
  /** Cuts the connection; what is in flight is lost. */
  cut(code?: number): void;
  /**
   * Opens another connection. Its HELLO takes the session up where the server's core lets it, else it
   * begins a new session, `sess_other`, with the reason.
   */
  reconnect(): void;
  /** Puts a frame on the wire as if `from` had written it. */
  inject(from: 'client' | 'server', frame: Uint8Array | string): void;
}

export interface SimulationOptions {
  readonly client?: Partial<SessionOptions>;
  readonly server?: Partial<SessionOptions>;
  /** @default 0 */
  readonly delayMs?: number;
  /** What becomes of a frame on its way; it is handed a copy. @default the same */
  readonly tamper?: (frame: Uint8Array, from: End) => Uint8Array;
  /** What the server does with a HELLO. @default accepts it as `sess_test` */
  readonly onHello?: (core: SessionCore, now: number) => void;
}

interface Delivery {
  readonly at: number;
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
  const client = end('client', options.client);
  const server = end('server', options.server);
  let now = 0;
  let isCut = false;
  /** The server's end of a connection that was opened after the first, until its HELLO has come. */
  let awaitsHello = false;
  let wire: Delivery[] = [];

  /** A session writes to the memory of a frame again once that was confirmed. */
  const carry = (frame: Uint8Array | string, from: End) =>
    typeof frame === 'string' ? frame : (options.tamper?.(frame.slice(), from) ?? frame.slice());
  const peerOf = (from: End) => (from === client ? server : client);

  /** Polls one end dry; a disconnect goes out behind every frame that was written before it. */
  const pump = (from: End): boolean => {
    let busy = false;
    let disconnect: End['closedWith'];
    for (;;) {
      let progress = false;
      for (let frame = from.core.pollTransmit(); frame !== undefined; frame = from.core.pollTransmit()) {
        from.sent.push(frame);
        if (!isCut) wire.push({ at: now + delayMs, to: peerOf(from), frame: carry(frame, from) });
        progress = true;
      }
      for (let event = from.core.pollEvent(); event !== undefined; event = from.core.pollEvent()) {
        from.events.push(event);
        progress = true;
        if (event.type === 'hello') onHello(from.core, now);
        if (event.type === 'disconnect') disconnect ??= { code: event.closeCode, reason: event.reason };
      }
      if (!progress) break;
      busy = true;
    }
    if (disconnect !== undefined && from.closedWith === undefined) {
      from.closedWith = disconnect;
      if (!isCut) wire.push({ at: now + delayMs, to: peerOf(from), frame: disconnect });
    }
    return busy;
  };

  const takeUp = (frame: Uint8Array | string): void => {
    awaitsHello = false;
    const message = decodeControl(frame as Uint8Array, common.limits);
    if (message.type !== 'HELLO' || message.payload.resume === undefined)
      throw new Error('no HELLO to resume');
    const { resume } = message.payload;
    const refusal = server.core.checkResume(message.payload, common.subprotocol);
    if (refusal === undefined) return server.core.resume(resume, now);
    if (refusal === 'stale_attempt') throw new Error(refusal);
    const other = end('server', options.server);
    other.core.handleConnected(now);
    other.core.handleMessage(frame, now);
    other.core.accept('sess_other', now, { refusal });
    const accept = other.core.pollTransmit();
    if (accept !== undefined) wire.push({ at: now + delayMs, to: client, frame: accept });
  };

  const deliver = (): boolean => {
    const due = wire.findIndex((delivery) => delivery.at <= now);
    if (due < 0) return false;
    const [{ to, frame }] = wire.splice(due, 1) as [Delivery];
    if (typeof frame === 'string' || frame instanceof Uint8Array) {
      if (to === server && awaitsHello) takeUp(frame);
      else if (to.closedWith === undefined) to.core.handleMessage(frame, now);
    } else {
      to.core.handleDisconnected(frame.code, frame.reason, now);
      // The WebSocket closing handshake reports the same code to the end that began it.
      peerOf(to).core.handleDisconnected(frame.code, frame.reason, now);
    }
    return true;
  };

  const simulation: Simulation = {
    client,
    server,
    get now() {
      return now;
    },
    settle() {
      for (let round = 0; ; round++) {
        if (round > 1_000_000) throw new Error('the two ends never come to rest');
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
          server.core.nextTimeout(),
          ...wire.map((delivery) => delivery.at),
        );
        if (next > until) break;
        now = Math.max(now, next);
        client.core.handleTimeout(now);
        server.core.handleTimeout(now);
      }
      now = until;
      simulation.settle();
    },
    cut(code = 1006) {
      isCut = true;
      wire = [];
      client.core.handleDisconnected(code, '', now);
      server.core.handleDisconnected(code, '', now);
      simulation.settle();
    },
    reconnect() {
      isCut = false;
      awaitsHello = true;
      client.closedWith = undefined;
      server.closedWith = undefined;
      client.core.handleConnected(now);
      simulation.settle();
    },
    inject(from, frame) {
      wire.push({ at: now + delayMs, to: from === 'client' ? server : client, frame });
    },
  };
  client.core.handleConnected(now);
  server.core.handleConnected(now);
  return simulation;
}

/** The events of one type, narrowed. */
export function eventsOf<Type extends SessionEvent['type']>(
  end: End,
  type: Type,
): Extract<SessionEvent, { type: Type }>[] {
  return end.events.filter((event) => event.type === type) as Extract<SessionEvent, { type: Type }>[];
}
