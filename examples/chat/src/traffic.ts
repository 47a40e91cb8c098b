import type { Message, Session } from '@parlance/client';

/** Bytes on the socket beside the same content as JSON, by turn and for all sessions of this page. */

/** One direction, in bytes. */
export interface Comparison {
  /** Sent: the request as JSON text. Received: the answer as bare text, without any JSON around it. */
  readonly json: number;
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
  /** Everything else on the socket: negotiation, keep-alive, closing. */
  readonly overhead: number;
}

export interface TurnMeter {
  /** Call once the request was sent, with its JSON text. */
  sent(json: string): void;
  received(part: Message): void;
  finish(): void;
  read(): TurnTraffic;
}

export interface Traffic {
  /** Counts the session from here on; what came before stays in the total. */
  follow(session: Session): void;
  /** Starts a turn on the session that is followed. Turns do not overlap. */
  begin(): TurnMeter;
  readonly turns: readonly TurnTraffic[];
  readonly total: TotalTraffic;
}

const utf8 = new TextEncoder();
const sizeOf = (text: string) => utf8.encode(text).length;

export function createTraffic(): Traffic {
  const meters: TurnMeter[] = [];
  let session: Session | undefined;
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
      let json = 0;
      let socket = 0;
      for (const { sent, received } of this.turns) {
        json += sent.json + received.json;
        socket += sent.socket + received.socket;
      }
      return { turns: { json, socket }, overhead: bytesSoFar() - socket };
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
  let sentJson = 0;
  let receivedText = 0;
  let parts = 0;
  let algorithm = '';
  let final: TurnTraffic | undefined;

  return {
    sent(json) {
      sentJson = sizeOf(json);
      algorithm = lastAlgorithm();
    },
    received(part) {
      receivedText += sizeOf(part.text);
      parts++;
    },
    finish() {
      final ??= { ...this.read(), isFinal: true };
    },
    read() {
      if (final !== undefined) return final;
      const now = wire();
      return {
        sent: { json: sentJson, socket: now.sent - before.sent },
        received: { json: receivedText, socket: now.received - before.received },
        parts,
        algorithm,
        isFinal: false,
      };
    },
  };
}
