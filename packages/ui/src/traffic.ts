import type { ClientSession } from '@parlance/client';
import type { PlainHttpSize } from './plain-http.js';

/** The size of the same traffic as plain HTTP and on the socket, in bytes. */
export interface Comparison {
  /** See {@link PlainHttpSize}. */
  readonly http: number;
  /** WebSocket messages including session headers, without the WebSocket's own frame headers. */
  readonly socket: number;
}

export interface TurnTraffic {
  readonly sent: Comparison;
  readonly received: Comparison;
  readonly parts: number;
  /** The page follows an answer that was asked for before it was loaded, or by another one. */
  readonly isFollowed: boolean;
  /** Codec of the request. */
  readonly algorithm: string;
  /** Whether the turn is over; until then, the figures grow. */
  readonly isFinal: boolean;
}

export interface TotalTraffic {
  /** All turns, both directions. */
  readonly turns: Comparison;
  /** Everything else on the socket: negotiation, keep-alive, resuming, closing. */
  readonly overhead: number;
}

export interface TurnMeter {
  /** Size of the turn as plain HTTP; updated by the caller. */
  readonly http: PlainHttpSize;
  received(): void;
  finish(): void;
  read(): TurnTraffic;
}

export interface Traffic {
  /** Counts this session from now on; earlier sessions stay in the total. */
  follow(session: ClientSession): void;
  /**
   * Starts a turn on the present session. Turns must not overlap.
   *
   * @param isFollowed see {@link TurnTraffic}.
   */
  begin(isFollowed: boolean): TurnMeter;
  readonly turns: readonly TurnTraffic[];
  readonly total: TotalTraffic;
}

export function bothWays({ sent, received }: TurnTraffic): Comparison {
  return { http: sent.http + received.http, socket: sent.socket + received.socket };
}

const NOTHING = { sent: { wireBytes: 0 }, received: { wireBytes: 0 } };

export function createTraffic(): Traffic {
  const meters: TurnMeter[] = [];
  let session: ClientSession | undefined;
  /** Bytes of earlier sessions, and of the present one when it was read last. */
  const earlier = { sent: 0, received: 0 };
  let present = { id: '', sent: 0, received: 0 };
  /** Reads the counts, which begin at zero with each session. */
  const wire = () => {
    const { id = '' } = session ?? {};
    const { sent, received } = session?.stats() ?? NOTHING;
    if (id !== present.id) {
      earlier.sent += present.sent;
      earlier.received += present.received;
    }
    present = { id, sent: sent.wireBytes, received: received.wireBytes };
    return { sent: earlier.sent + present.sent, received: earlier.received + present.received };
  };

  return {
    follow(next) {
      session = next;
    },

    begin(isFollowed) {
      const algorithm = () => session?.stats().lastSelection?.algorithm ?? '';
      const meter = createMeter(wire, algorithm, isFollowed);
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
      const { sent, received } = wire();
      return { turns: { http, socket }, overhead: sent + received - socket };
    },
  };
}

/**
 * @param wire returns the bytes of the session in both directions.
 * @param lastAlgorithm returns the codec of the last body sent.
 */
function createMeter(
  wire: () => { readonly sent: number; readonly received: number },
  lastAlgorithm: () => string,
  isFollowed: boolean,
): TurnMeter {
  const before = wire();
  const http = { sent: 0, received: 0 };
  let parts = 0;
  let algorithm = '';
  let final: TurnTraffic | undefined;
  /** The SDK sends the request later, but before the first part of the answer. */
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
        isFollowed,
        algorithm,
        isFinal: false,
      };
    },
  };
}
