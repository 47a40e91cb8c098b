import { type Limits, ProtocolError } from '@parlance/protocol';
import { TokenBucket } from '@parlance/protocol/internal';
import type { Transport } from './transport.js';

/**
 * Limits what arrives on a connection in addition to messages: WebSocket pings and pongs, and fragment headers, which the
 * session's rate limits do not see. Bytes are compared only once in a while, so that a message costs two additions.
 */

const MINUTE_MS = 60_000;
/** Pings and pongs may come in bursts of twice the rate, like a session's control messages. */
const TOLERANCE = 2;
/** Messages between two comparisons, a power of two. */
const INTERVAL = 64;
/** Bytes that may have been read after the message that is handled. */
const MAX_READ_AHEAD = 256 * 1024;
/** Bytes of overhead allowed at once, and per millisecond. Fragments of 1 KiB or more need far less. */
export const OVERHEAD_BURST = 1024 * 1024;
const OVERHEAD_PER_MS = 256;

export class Meter {
  readonly #transport: Pick<Transport, 'traffic' | 'overhead'>;
  readonly #limits: Pick<Limits, 'bytesPerSecond' | 'controlMessagesPerMinute'>;
  /** Bytes of the connection that messages account for. */
  #accounted = 0;
  #messages = 0;
  #overhead: TokenBucket | undefined;
  #controls: TokenBucket | undefined;

  constructor(
    transport: Pick<Transport, 'traffic' | 'overhead'>,
    limits: Pick<Limits, 'bytesPerSecond' | 'controlMessagesPerMinute'>,
  ) {
    this.#transport = transport;
    this.#limits = limits;
  }

  /** Counts a message of `size` bytes. Returns an error if there is too much overhead, which every 64th call checks. */
  handleMessage(size: number, now: () => number): ProtocolError | undefined {
    this.#accounted += size + this.#transport.overhead;
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
    if (this.#limits.bytesPerSecond === Infinity) return undefined;
    const { received: read } = this.#transport.traffic;
    const beside = read - this.#accounted - MAX_READ_AHEAD;
    // Headers shorter than 14 bytes leave no balance for later.
    this.#accounted = Math.min(read, this.#accounted + Math.max(0, beside));
    if (beside <= 0) return undefined;
    this.#overhead ??= new TokenBucket(OVERHEAD_BURST, OVERHEAD_PER_MS, now);
    if (this.#overhead.take(beside, now)) return undefined;
    return new ProtocolError('rate_limited', 'too many bytes of fragment headers');
  }
}
