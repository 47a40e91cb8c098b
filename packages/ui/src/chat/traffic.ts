import type { ClientSession } from '@parlance/client';
import type { PlainHttpSize } from './plain-http.js';

/** The size of the same traffic on the socket and as plain HTTP, in bytes, one way. */
export interface Comparison {
  /** WebSocket messages with the headers of their frames. */
  readonly socket: number;
  /** See {@link PlainHttpSize}. */
  readonly http: number;
  /** The same with compressed bodies. */
  readonly gzip: number;
}

/** Both ways: requests and answers. */
export interface Total {
  readonly socket: number;
  /** HTTP with answers in gzip, as people have it. */
  readonly gzip: number;
  /** With requests in gzip too, which few apps have. */
  readonly gzipBoth: number;
  /** Uncompressed. */
  readonly http: number;
}

export interface TurnTraffic {
  readonly sent: Comparison;
  readonly received: Comparison;
  /** Pieces of the answer. */
  readonly parts: number;
  /** From the question to the end of the answer, as far as this tab has waited. */
  readonly ms: number;
}

export const NO_TRAFFIC: TurnTraffic = {
  sent: { socket: 0, http: 0, gzip: 0 },
  received: { socket: 0, http: 0, gzip: 0 },
  parts: 0,
  ms: 0,
};

export interface TurnMeter {
  /** Size as plain HTTP; updated by the caller. */
  readonly http: PlainHttpSize;
  received(): void;
  /** Writes the figures so far into the turn. */
  read(): void;
  /** Completes the sizes over HTTP, which may take a while after a fast answer, and writes them into the turn. */
  settle(): Promise<void>;
}

export interface Traffic {
  /** Counts the header of a frame of the WebSocket. @param length of the message. */
  frame(direction: 'sent' | 'received', length: number): void;
  /** Counts this session from now on; earlier sessions stay in the total. */
  follow(session: ClientSession): void;
  /** Counts an attempt at this turn in addition to those before. Attempts must not overlap. */
  begin(turn: { traffic: TurnTraffic }): TurnMeter;
  /** Everything else on the socket since the page was loaded: negotiation, keep-alive, resuming, closing. */
  overhead(): number;
}

export function addTraffic(a: TurnTraffic, b: TurnTraffic): TurnTraffic {
  return {
    sent: add(a.sent, b.sent),
    received: add(a.received, b.received),
    parts: a.parts + b.parts,
    ms: a.ms + b.ms,
  };
}

export function bothWays({ sent, received }: TurnTraffic): Total {
  return {
    socket: sent.socket + received.socket,
    gzip: sent.http + received.gzip,
    gzipBoth: sent.gzip + received.gzip,
    http: sent.http + received.http,
  };
}

export function totalOf(turns: readonly TurnTraffic[]): Total {
  return turns.map(bothWays).reduce(sumOf, NO_TOTAL);
}

export const NO_TOTAL: Total = { socket: 0, gzip: 0, gzipBoth: 0, http: 0 };

export function sumOf(a: Total, b: Total): Total {
  return {
    socket: a.socket + b.socket,
    gzip: a.gzip + b.gzip,
    gzipBoth: a.gzipBoth + b.gzipBoth,
    http: a.http + b.http,
  };
}

function add(a: Comparison, b: Comparison): Comparison {
  return { socket: a.socket + b.socket, http: a.http + b.http, gzip: a.gzip + b.gzip };
}

/** Bytes of the key with which a browser masks what it sends. */
const MASK = 4;

/** Bytes of the header of a frame from a server, see RFC 6455. */
function headerOf(length: number): number {
  if (length < 126) return 2;
  return length < 65_536 ? 4 : 10;
}

const NOTHING = { sent: { wireBytes: 0 }, received: { wireBytes: 0 } };

export function createTraffic(): Traffic {
  let session: ClientSession | undefined;
  /** Bytes of earlier sessions, and of the present one when it was read last. */
  const earlier = { sent: 0, received: 0 };
  let present = { id: '', sent: 0, received: 0 };
  const framing = { sent: 0, received: 0 };
  /** Bytes of all turns on the sockets of this page. */
  let counted = 0;
  /** Reads the counts, which begin at zero with each session. */
  const wire = () => {
    const { id = '' } = session ?? {};
    const { sent, received } = session?.stats() ?? NOTHING;
    if (id !== present.id) {
      earlier.sent += present.sent;
      earlier.received += present.received;
    }
    present = { id, sent: sent.wireBytes, received: received.wireBytes };
    return {
      sent: earlier.sent + present.sent + framing.sent,
      received: earlier.received + present.received + framing.received,
    };
  };

  return {
    frame(direction, length) {
      framing[direction] += headerOf(length) + (direction === 'sent' ? MASK : 0);
    },

    follow(next) {
      session = next;
    },

    begin(turn) {
      const base = turn.traffic;
      const http: PlainHttpSize = { sent: 0, received: 0, gzip: { sent: 0, received: 0 } };
      const begun = performance.now();
      let last = wire();
      const socket = { sent: 0, received: 0 };
      let parts = 0;
      let ms = 0;
      const write = () => {
        const { sent, received, gzip } = http;
        turn.traffic = {
          sent: add(base.sent, { socket: socket.sent, http: sent, gzip: gzip.sent }),
          received: add(base.received, { socket: socket.received, http: received, gzip: gzip.received }),
          parts: base.parts + parts,
          ms: base.ms + ms,
        };
      };
      return {
        http,
        received() {
          parts++;
        },
        read() {
          const now = wire();
          socket.sent += now.sent - last.sent;
          socket.received += now.received - last.received;
          counted += now.sent - last.sent + now.received - last.received;
          last = now;
          ms = performance.now() - begun;
          write();
        },
        async settle() {
          await http.settle?.();
          write();
        },
      };
    },

    overhead() {
      const { sent, received } = wire();
      return sent + received - counted;
    },
  };
}
