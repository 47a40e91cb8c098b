import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { TokenBucket } from '../base/token-bucket.js';

/**
 * How much may be sent per time.
 *
 * A sender keeps to the announced rates by waiting. A receiver allows twice the burst, so that a sender
 * whose clock or network is uneven is never in the wrong, and meets what goes beyond it in steps: a request
 * is answered `rate_limited`, for messages and bytes credit is held back until the rate is kept again, and
 * who exceeds it by another burst all the same is closed with 4429.
 *
 * Control messages have a rate of their own, generous to every peer that uses them as they are meant; a session beyond it
 * is closed at once, as nothing holds control messages back. And since a frame of two bytes takes as long to
 * handle as one of sixty, none counts as fewer bytes than {@link MIN_FRAME_CHARGE}.
 *
 * A bucket is made when it is first used, as most sessions wait most of the time.
 */

type Rates = Pick<Limits, 'messagesPerMinute' | 'bytesPerSecond'>;
type GateLimits = Rates & Pick<Limits, 'controlMessagesPerMinute' | 'sessionWindow'>;

/** Bytes that a WebSocket message counts for at least. */
export const MIN_FRAME_CHARGE = 64;

const MINUTE_MS = 60_000;
const SECOND_MS = 1_000;
/** Bursts that a receiver allows. */
const TOLERANCE = 2;
/** What one stream may be granted beyond its window to complete a message, and frames that need no credit. */
const BEYOND_WINDOW = 2 * 1024 * 1024;

/** The sending side: what may be written now. */
export class Pacer {
  readonly #rates: Partial<Rates>;
  #messages: TokenBucket | undefined;
  #bytes: TokenBucket | undefined;

  /** @param rates what the peer has announced. */
  constructor(rates: Partial<Rates>) {
    this.#rates = rates;
  }

  /** Whether a message, request or transfer may begin. */
  mayBegin(now: number): boolean {
    return this.#messages?.has(1, now) ?? true;
  }

  /** One has begun, in time or again after a lost connection. */
  begin(now: number): void {
    this.#messages ??= bucketOf(this.#rates.messagesPerMinute, MINUTE_MS, 1, now);
    this.#messages?.spend(1, now);
  }

  /** Whether anything but control may be written. */
  mayWrite(now: number): boolean {
    return this.#bytes?.has(0, now) ?? true;
  }

  write(size: number, now: number): void {
    this.#bytes ??= bucketOf(this.#rates.bytesPerSecond, SECOND_MS, 1, now);
    this.#bytes?.spend(Math.max(size, MIN_FRAME_CHARGE), now);
  }

  /** When both may be again. */
  readyAt(now: number): number {
    return Math.max(this.#messages?.readyAt(1, now) ?? now, this.#bytes?.readyAt(0, now) ?? now);
  }
}

/** The receiving side. While it is closed, no credit is granted. */
export class RateLimiter {
  /** What every request is answered, however few there are. */
  refusal: ProtocolError | undefined;
  readonly #limits: GateLimits;
  #messages: TokenBucket | undefined;
  #bytes: TokenBucket | undefined;
  #controls: TokenBucket | undefined;
  #opensAt = Infinity;

  constructor(limits: GateLimits) {
    this.#limits = limits;
  }

  get isClosed(): boolean {
    return this.#opensAt !== Infinity;
  }

  /** When the gate opens, `Infinity` where it is open. */
  get opensAt(): number {
    return this.#opensAt;
  }

  /** @throws {ProtocolError} `rate_limited` where more arrives than credit can account for. */
  handleBytes(size: number, now: number): void {
    const { bytesPerSecond, sessionWindow } = this.#limits;
    this.#bytes ??= bucketOf(bytesPerSecond, SECOND_MS, TOLERANCE, now);
    const bytes = this.#bytes;
    if (bytes === undefined) return;
    const level = bytes.spend(Math.max(size, MIN_FRAME_CHARGE), now);
    if (level >= 0) return;
    const readyAt = bytes.readyAt(0, now);
    // What was granted before the gate closed is no excess of the peer's.
    if (level < -(bytesPerSecond + sessionWindow + BEYOND_WINDOW))
      throw excess(`${bytesPerSecond} bytes a second`, readyAt - now);
    this.#closeUntil(readyAt);
  }

  /**
   * A request or transfer opens a stream. Returns what to answer where it is not taken.
   *
   * @throws {ProtocolError} `rate_limited` where the excess persists.
   */
  handleRequest(now: number): ProtocolError | undefined {
    const retryAfterMs = this.#spendMessage(now);
    if (this.refusal !== undefined || retryAfterMs === 0) return this.refusal;
    return new ProtocolError('rate_limited', 'too many requests', { retryAfterMs });
  }

  /** A one-way message. @throws {ProtocolError} as {@link handleRequest}. */
  handleMessage(now: number): void {
    const delay = this.#spendMessage(now);
    if (delay > 0) this.#closeUntil(now + delay);
  }

  /** A control message that is not DATA. @throws {ProtocolError} `rate_limited` beyond twice the burst. */
  handleControl(now: number): void {
    const { controlMessagesPerMinute } = this.#limits;
    this.#controls ??= bucketOf(controlMessagesPerMinute, MINUTE_MS, TOLERANCE, now);
    const controls = this.#controls;
    if (controls === undefined || controls.take(1, now)) return;
    throw excess(`${controlMessagesPerMinute} control messages a minute`, controls.readyAt(1, now) - now);
  }

  /** Opens the gate where it is time. Returns whether it did. */
  handleTimeout(now: number): boolean {
    if (now < this.#opensAt) return false;
    this.#opensAt = Infinity;
    return true;
  }

  /** Milliseconds until one more message is in time. */
  #spendMessage(now: number): number {
    const { messagesPerMinute } = this.#limits;
    this.#messages ??= bucketOf(messagesPerMinute, MINUTE_MS, TOLERANCE, now);
    const messages = this.#messages;
    if (messages === undefined) return 0;
    const level = messages.spend(1, now);
    if (level >= 0) return 0;
    const delay = messages.readyAt(1, now) - now;
    if (level < -messagesPerMinute) throw excess(`${messagesPerMinute} messages a minute`, delay);
    return delay;
  }

  #closeUntil(reading: number): void {
    this.#opensAt = this.#opensAt === Infinity ? reading : Math.max(this.#opensAt, reading);
  }
}

/** `undefined` where there is no rate; nobody states 0 who wants to be talked to. */
function bucketOf(
  amount: number | undefined,
  periodMs: number,
  bursts: number,
  now: number,
): TokenBucket | undefined {
  if (amount === undefined || amount === Infinity || amount === 0) return undefined;
  return new TokenBucket(bursts * amount, amount / periodMs, now);
}

function excess(rate: string, retryAfterMs: number): ProtocolError {
  return new ProtocolError('rate_limited', `more than ${rate}, for too long`, { retryAfterMs });
}
