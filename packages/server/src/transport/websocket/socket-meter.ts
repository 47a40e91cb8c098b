import { type Limits, ProtocolError } from '@parlance/protocol';
import { TokenBucket } from '@parlance/protocol/internal';

/**
 * Limits what arrives on a socket in addition to messages: WebSocket pings and pongs, and fragment headers, which the
 * session's rate limits do not see. Bytes are compared only once in a while, so that a message costs two additions.
 */

const MINUTE_MS = 60_000;
/** Pings and pongs may come in bursts of twice the rate, like a session's control messages. */
const TOLERANCE = 2;
/** Messages between two comparisons, a power of two. */
const INTERVAL = 64;
/** Bytes of a WebSocket frame header, at most. */
const FRAME_HEAD = 14;
/** Bytes of a TLS record around its content. */
const TLS_RECORD = 40;
/** Bytes that may have been read after the message that is handled. */
const MAX_READ_AHEAD = 256 * 1024;
/** Bytes of overhead allowed at once, and per millisecond. Fragments of 1 KiB or more need far less. */
export const OVERHEAD_BURST = 1024 * 1024;
const OVERHEAD_PER_MS = 256;

export interface MeteredSocket {
  readonly bytesRead: number;
  readonly encrypted?: boolean;
}

export class SocketMeter {
  readonly #socket: MeteredSocket;
  readonly #limits: Pick<Limits, 'bytesPerSecond' | 'controlMessagesPerMinute'>;
  /** Bytes read from the socket that messages account for. */
  #accounted: number;
  #messages = 0;
  #overhead: TokenBucket | undefined;
  #controls: TokenBucket | undefined;

  constructor(socket: MeteredSocket, limits: Pick<Limits, 'bytesPerSecond' | 'controlMessagesPerMinute'>) {
    this.#socket = socket;
    this.#limits = limits;
    this.#accounted = socket.bytesRead;
  }

  /** Counts a message of `size` bytes. Returns an error if there is too much overhead, which every 64th call checks. */
  handleMessage(size: number, now: () => number): ProtocolError | undefined {
    this.#accounted += size + FRAME_HEAD;
    if ((++this.#messages & (INTERVAL - 1)) !== 0) return undefined;
    return this.#check(now());
  }

  /** Counts a WebSocket ping or pong. Returns an error if there are too many. */
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
    // Headers shorter than 14 bytes leave no balance for later.
    this.#accounted = Math.min(read, this.#accounted + Math.max(0, beside));
    if (beside <= 0) return undefined;
    this.#overhead ??= new TokenBucket(OVERHEAD_BURST, OVERHEAD_PER_MS, now);
    if (this.#overhead.take(beside, now)) return undefined;
    return new ProtocolError('rate_limited', 'too many bytes of fragment headers');
  }
}
