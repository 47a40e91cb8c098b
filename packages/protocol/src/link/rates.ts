import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { TokenBucket } from '../base/token-bucket.js';
import { isSignal } from './frame.js';

/**
 * Rates: how much a peer may send per time.
 *
 * A sender waits as needed to keep the advertised rates. A receiver allows twice the burst, so that a sender
 * with an uneven clock or network never exceeds the limit. Beyond that, a request is answered with
 * `rate_limited`; for messages and bytes, credit is held back until the rate is kept again. A peer that
 * exceeds the limit by another burst is disconnected with 4429.
 *
 * Control messages have a rate of their own, far above what normal use needs. A session that exceeds it is
 * closed at once, as nothing can hold control messages back. A frame of two bytes takes as long to handle as
 * one of sixty, so every frame counts for at least {@link MIN_FRAME_CHARGE} bytes.
 *
 * Cancels, aliases, acknowledgements and statements of credit (signals) do not count as bytes, as a peer owes them for
 * what it receives. They too have a rate of their own, and a session that exceeds it is closed.
 *
 * Buckets are created when they are first used: most sessions are idle.
 */

/** The rates that a peer keeps by waiting. */
export type RateName = 'messagesPerMinute' | 'bytesPerSecond';
type Rates = Pick<Limits, RateName>;
type GateLimits = Rates & Pick<Limits, 'controlMessagesPerMinute' | 'sessionWindow'>;

/** Least number of bytes that a WebSocket message counts for. */
export const MIN_FRAME_CHARGE = 64;

const MINUTE_MS = 60_000;
const SECOND_MS = 1_000;
/**
 * Signals that a server takes. Acknowledgements come once in 32 frames or 64 KiB, so this is enough for a million
 * frames a second.
 */
const SIGNALS_PER_SECOND = 40_000;
/** Bursts that a receiver allows. */
const TOLERANCE = 2;
/** Bytes that may arrive beyond the session window: to complete a message, and frames that need no credit. */
const BEYOND_WINDOW = 2 * 1024 * 1024;

/** The sending side: decides when to write. */
export class Pacer {
  readonly #rates: Partial<Rates>;
  #messages: TokenBucket | undefined;
  #bytes: TokenBucket | undefined;

  /** @param rates those that the peer has advertised. */
  constructor(rates: Partial<Rates>) {
    this.#rates = rates;
  }

  /** Whether a message, request or transfer may begin. */
  mayBegin(now: number): boolean {
    return this.#messages?.has(1, now) ?? true;
  }

  /** A message, request or transfer has begun, or was replayed after a lost connection. */
  begin(now: number): void {
    this.#messages ??= bucketOf(this.#rates.messagesPerMinute, MINUTE_MS, 1, now);
    this.#messages?.spend(1, now);
  }

  /** Whether anything other than control frames may be written. */
  mayWrite(now: number): boolean {
    return this.#bytes?.has(0, now) ?? true;
  }

  write(size: number, now: number): void {
    this.#bytes ??= bucketOf(this.#rates.bytesPerSecond, SECOND_MS, 1, now);
    this.#bytes?.spend(Math.max(size, MIN_FRAME_CHARGE), now);
  }

  /** Clock reading at which a message may both begin and be written. */
  readyAt(now: number): number {
    return Math.max(this.#messages?.readyAt(1, now) ?? now, this.#bytes?.readyAt(0, now) ?? now);
  }
}

/** The state of a {@link RateLimiter}: levels of its buckets, `undefined` for full ones. */
export interface RateState {
  readonly messages: number | undefined;
  readonly bytes: number | undefined;
  readonly controls: number | undefined;
  /** Milliseconds; `Infinity` if the gate is open. */
  readonly opensIn: number;
}

/** The receiving side: a gate. While it is closed, no credit is granted. */
export class RateLimiter {
  /** If set, every request is refused with this error, regardless of the rate. */
  refusal: ProtocolError | undefined;
  readonly #limits: GateLimits;
  #messages: TokenBucket | undefined;
  #bytes: TokenBucket | undefined;
  #controls: TokenBucket | undefined;
  #signals: TokenBucket | undefined;
  /** `undefined` while the gate is open: a number like Infinity would take room for itself. */
  #opensAt: number | undefined;
  /** The last message has used up the rate. */
  #isAtMessages = false;
  /** The last frame has used up the rate. */
  #isAtBytes = false;
  /** The rate that the last frame but one had used up, and the last one has again. */
  reached: RateName | undefined;

  constructor(limits: GateLimits) {
    this.#limits = limits;
  }

  get rates(): Rates {
    return this.#limits;
  }

  /**
   * The levels of its buckets but that of signals, which fills within two seconds, and the milliseconds until the gate
   * opens. {@link refusal} belongs to this server.
   */
  snapshot(now: number): RateState {
    return {
      messages: unlessFull(this.#messages, now)?.level(now),
      bytes: unlessFull(this.#bytes, now)?.level(now),
      controls: unlessFull(this.#controls, now)?.level(now),
      opensIn: this.opensAt - now,
    };
  }

  restore({ messages, bytes, controls, opensIn }: RateState, now: number): void {
    const { messagesPerMinute, bytesPerSecond, controlMessagesPerMinute } = this.#limits;
    this.#messages = bucketAt(messages, messagesPerMinute, MINUTE_MS, now);
    this.#bytes = bucketAt(bytes, bytesPerSecond, SECOND_MS, now);
    this.#controls = bucketAt(controls, controlMessagesPerMinute, MINUTE_MS, now);
    this.#opensAt = opensIn === Infinity ? undefined : now + opensIn;
  }

  /** Lets go of the buckets that are full. */
  rest(now: number): void {
    this.#messages = unlessFull(this.#messages, now);
    this.#bytes = unlessFull(this.#bytes, now);
    this.#controls = unlessFull(this.#controls, now);
    this.#signals = unlessFull(this.#signals, now);
  }

  get isClosed(): boolean {
    return this.#opensAt !== undefined;
  }

  /** Clock reading at which the gate opens; `Infinity` if it is open. */
  get opensAt(): number {
    return this.#opensAt ?? Infinity;
  }

  /**
   * Whether a peer that keeps the rates has to wait at `now`. It has no more than one burst, and its frames are counted
   * here later than there, so a lack of more than one burst here is a lack there.
   */
  isReached(now: number): boolean {
    const { messagesPerMinute, bytesPerSecond } = this.#limits;
    const [messages, bytes] = [this.#messages, this.#bytes];
    const isAtMessages = messages !== undefined && messages.level(now) < messagesPerMinute + 1;
    return isAtMessages || (bytes !== undefined && bytes.level(now) < bytesPerSecond);
  }

  /**
   * A WebSocket message arrives.
   *
   * @throws {ProtocolError} `rate_limited` if more bytes arrive than the granted credit explains, or too many signals.
   */
  handleData(data: Uint8Array | string, now: number): void {
    this.reached = undefined;
    if (isSignal(data)) this.#handleSignal(now);
    else this.#handleBytes(data.length, now);
  }

  #handleSignal(now: number): void {
    // Without a rate of bytes there is none of signals either.
    if (this.#limits.bytesPerSecond === Infinity) return;
    this.#signals ??= new TokenBucket(TOLERANCE * SIGNALS_PER_SECOND, SIGNALS_PER_SECOND / SECOND_MS, now);
    if (this.#signals.take(1, now)) return;
    throw excess(
      `${SIGNALS_PER_SECOND} acknowledgements and other signals a second`,
      this.#signals.readyAt(1, now) - now,
    );
  }

  #handleBytes(size: number, now: number): void {
    const { bytesPerSecond, sessionWindow } = this.#limits;
    this.#bytes ??= bucketOf(bytesPerSecond, SECOND_MS, TOLERANCE, now);
    const bytes = this.#bytes;
    if (bytes === undefined) return;
    const level = bytes.spend(Math.max(size, MIN_FRAME_CHARGE), now);
    const isAt = level < bytesPerSecond;
    if (isAt && this.#isAtBytes) this.reached = 'bytesPerSecond';
    this.#isAtBytes = isAt;
    if (level >= 0) return;
    const readyAt = bytes.readyAt(0, now);
    // Credit that was granted before the gate closed is not held against the peer.
    if (level < -(bytesPerSecond + sessionWindow + BEYOND_WINDOW))
      throw excess(`${bytesPerSecond} bytes a second`, readyAt - now);
    this.#closeUntil(readyAt);
  }

  /**
   * A request or transfer opens a stream. Returns the error to refuse it with, if any.
   *
   * @throws {ProtocolError} `rate_limited` if the peer exceeds the rate by another burst.
   */
  handleRequest(now: number): ProtocolError | undefined {
    const retryAfterMs = this.#spendMessage(now);
    if (this.refusal !== undefined || retryAfterMs === 0) return this.refusal;
    return new ProtocolError('rate_limited', 'too many requests', { retryAfterMs });
  }

  /** A one-way message arrives. @throws {ProtocolError} as {@link handleRequest}. */
  handleMessage(now: number): void {
    const delay = this.#spendMessage(now);
    if (delay > 0) this.#closeUntil(now + delay);
  }

  /**
   * A control message other than DATA arrives.
   * @throws {ProtocolError} `rate_limited` beyond twice the burst.
   */
  handleControl(now: number): void {
    const { controlMessagesPerMinute } = this.#limits;
    this.#controls ??= bucketOf(controlMessagesPerMinute, MINUTE_MS, TOLERANCE, now);
    const controls = this.#controls;
    if (controls === undefined || controls.take(1, now)) return;
    throw excess(`${controlMessagesPerMinute} control messages a minute`, controls.readyAt(1, now) - now);
  }

  /** Opens the gate if it is time. Returns whether it did. */
  handleTimeout(now: number): boolean {
    if (now < this.opensAt) return false;
    this.#opensAt = undefined;
    return true;
  }

  /** Returns the milliseconds until the message would have been within the rate; 0 if it is. */
  #spendMessage(now: number): number {
    const { messagesPerMinute } = this.#limits;
    this.#messages ??= bucketOf(messagesPerMinute, MINUTE_MS, TOLERANCE, now);
    const messages = this.#messages;
    if (messages === undefined) return 0;
    const level = messages.spend(1, now);
    const isAt = level < messagesPerMinute + 1;
    if (isAt && this.#isAtMessages) this.reached = 'messagesPerMinute';
    this.#isAtMessages = isAt;
    if (level >= 0) return 0;
    const delay = messages.readyAt(1, now) - now;
    if (level < -messagesPerMinute) throw excess(`${messagesPerMinute} messages a minute`, delay);
    return delay;
  }

  #closeUntil(reading: number): void {
    this.#opensAt = Math.max(this.#opensAt ?? reading, reading);
  }
}

/** `undefined` if the rate is unlimited; 0 is treated as unlimited. */
function bucketOf(
  amount: number | undefined,
  periodMs: number,
  bursts: number,
  now: number,
): TokenBucket | undefined {
  if (amount === undefined || amount === Infinity || amount === 0) return undefined;
  return new TokenBucket(bursts * amount, amount / periodMs, now);
}

/** A receiver's bucket with `level` in it; `undefined` without a level or a rate. */
function bucketAt(
  level: number | undefined,
  amount: number,
  periodMs: number,
  now: number,
): TokenBucket | undefined {
  if (level === undefined) return undefined;
  const bucket = bucketOf(amount, periodMs, TOLERANCE, now);
  bucket?.spend(Math.max(0, bucket.level(now) - level), now);
  return bucket;
}

function unlessFull(bucket: TokenBucket | undefined, now: number): TokenBucket | undefined {
  return bucket?.isFull(now) === true ? undefined : bucket;
}

function excess(rate: string, retryAfterMs: number): ProtocolError {
  return new ProtocolError('rate_limited', `more than ${rate}, for too long`, { retryAfterMs });
}
