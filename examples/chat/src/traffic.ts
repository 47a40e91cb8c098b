import type { ClientSession } from '@parlance/client';
import type { PlainHttpSize } from './plain-http.js';

/** Bytes on the socket beside the same exchange as plain HTTP, by turn and for all sessions of this page. */

/** One direction, in bytes. */
export interface Comparison {
  /** See {@link PlainHttpSize}. */
  readonly http: number;
  /** WebSocket messages, headers of the session included; the WebSocket's own frame headers are not. */
  readonly socket: number;
}

export interface TurnTraffic {
  readonly sent: Comparison;
  readonly received: Comparison;
  readonly parts: number;
  /** How the request travelled. */
  readonly algorithm: string;
  /** Whether the turn is over: until then, the figures grow. */
  readonly isFinal: boolean;
}

export interface TotalTraffic {
  /** All turns, both directions. */
  readonly turns: Comparison;
  /** Everything else on the socket: negotiation, keep-alive, taking the session up again, closing. */
  readonly overhead: number;
}

export interface TurnMeter {
  /** What the turn takes as plain HTTP; whoever asks keeps it up. */
  readonly http: PlainHttpSize;
  received(): void;
  finish(): void;
  read(): TurnTraffic;
}

export interface Traffic {
  /** Counts the session from here on; what came before stays in the total. */
  follow(session: ClientSession): void;
  /** Starts a turn on the session that is followed. Turns do not overlap. */
  begin(): TurnMeter;
  readonly turns: readonly TurnTraffic[];
  readonly total: TotalTraffic;
}

export function bothWays({ sent, received }: TurnTraffic): Comparison {
  return { http: sent.http + received.http, socket: sent.socket + received.socket };
}

export function createTraffic(): Traffic {
  const meters: TurnMeter[] = [];
  let session: ClientSession | undefined;
  /** Bytes of the sessions before this one. */
  let earlier = 0;
  const wire = () => {
    if (session === undefined) return { sent: 0, received: 0 };
    const { sent, received } = session.stats();
    return { sent: sent.wireBytes, received: received.wireBytes };
  };
  const bytesSoFar = () => {
    const { sent, received } = wire();
    return earlier + sent + received;
  };

  return {
    follow(next) {
      if (next === session) return;
      earlier = bytesSoFar();
      session = next;
    },

    begin() {
      const meter = createMeter(wire, () => session?.stats().lastSelection?.algorithm ?? '');
      meters.push(meter);
      return meter;
    },

    get turns() {
      return meters.map((meter) => meter.read());
    },

    get total() {
      let http = 0;
      let socket = 0;
      for (const turn of this.turns) {
        const both = bothWays(turn);
        http += both.http;
        socket += both.socket;
      }
      return { turns: { http, socket }, overhead: bytesSoFar() - socket };
    },
  };
}

/**
 * @param wire bytes of the session in both directions.
 * @param lastAlgorithm what was chosen for the last body sent.
 */
function createMeter(
  wire: () => { readonly sent: number; readonly received: number },
  lastAlgorithm: () => string,
): TurnMeter {
  const before = wire();
  const http = { sent: 0, received: 0 };
  let parts = 0;
  let algorithm = '';
  let final: TurnTraffic | undefined;
  /** The SDK sends in its own time; by the first part, it has. */
  const learn = () => {
    if (algorithm === '' && http.sent > 0) algorithm = lastAlgorithm();
  };

  return {
    http,
    received() {
      parts++;
      learn();
    },
    finish() {
      learn();
      final ??= { ...this.read(), isFinal: true };
    },
    read() {
      if (final !== undefined) return final;
      const now = wire();
      return {
        sent: { http: http.sent, socket: now.sent - before.sent },
        received: { http: http.received, socket: now.received - before.received },
        parts,
        algorithm,
        isFinal: false,
      };
    },
  };
}
