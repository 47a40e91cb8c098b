import { type Limits, ProtocolError } from '@parlance/protocol';
import { TokenBucket } from '@parlance/protocol/internal';

/**
 * Counts bytes that arrive on a socket beside messages: WebSocket pings and pongs, and heads of fragments, which
 * no rate of a session sees. Bytes are compared now and then only, so that a message costs two additions.
 */

const MINUTE_MS = 60_000;
/** Bursts of pings and pongs that are taken, as of a session's control messages. */
const TOLERANCE = 2;
/** Messages between two looks at the socket, a power of two. */
const INTERVAL = 64;
/** Bytes of a WebSocket frame around its payload, at most. */
const FRAME_HEAD = 14;
/** Bytes of a TLS record around its content. */
const TLS_RECORD = 40;
/** Bytes that were read and are not handed over yet when a message is. */
const MAX_READ_AHEAD = 256 * 1024;
/** Bytes beside messages: at once, and per millisecond. A fragment of 1 KiB or more costs far less. */
export const OVERHEAD_BURST = 1024 * 1024;
const OVERHEAD_PER_MS = 256;

export interface MeteredSocket {
  readonly bytesRead: number;
  readonly encrypted?: boolean;
}

export class SocketMeter {
  readonly #socket: MeteredSocket;
  readonly #limits: Pick<Limits, 'bytesPerSecond' | 'controlMessagesPerMinute'>;
  /** Bytes of the socket that messages account for. */
  #accounted: number;
  #messages = 0;
  #overhead: TokenBucket | undefined;
  #controls: TokenBucket | undefined;

  constructor(socket: MeteredSocket, limits: Pick<Limits, 'bytesPerSecond' | 'controlMessagesPerMinute'>) {
    this.#socket = socket;
    this.#limits = limits;
    this.#accounted = socket.bytesRead;
  }

  /** A message of `size` bytes. Returns the fault, at every 64th message, if more came beside messages than may. */
  handleMessage(size: number, now: () => number): ProtocolError | undefined {
    this.#accounted += size + FRAME_HEAD;
    if ((++this.#messages & (INTERVAL - 1)) !== 0) return undefined;
    return this.#check(now());
  }

  /** A WebSocket ping or pong. Returns the fault if it is one too many. */
  handleControl(now: number): ProtocolError | undefined {
    const { controlMessagesPerMinute: rate } = this.#limits;
    if (rate === Infinity) return undefined;
    this.#controls ??= new TokenBucket(TOLERANCE * rate, rate / MINUTE_MS, now);
    if (this.#controls.take(1, now)) return undefined;
    return new ProtocolError('rate_limited', `more than ${rate} WebSocket pings and pongs a minute`);
  }

  #check(now: number): ProtocolError | undefined {
    const { bytesRead, encrypted } = this.#socket;
    const read = bytesRead - (encrypted ? this.#messages * TLS_RECORD : 0);
    if (this.#limits.bytesPerSecond === Infinity) return undefined;
    const beside = read - this.#accounted - MAX_READ_AHEAD;
    // Heads of less than 14 bytes are not saved up for later.
    this.#accounted = Math.min(read, this.#accounted + Math.max(0, beside));
    if (beside <= 0) return undefined;
    this.#overhead ??= new TokenBucket(OVERHEAD_BURST, OVERHEAD_PER_MS, now);
    if (this.#overhead.take(beside, now)) return undefined;
    return new ProtocolError('rate_limited', 'more bytes of fragments than of what they carry');
  }
}
