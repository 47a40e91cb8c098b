import { CloseCode, type Limits } from '@parlance/protocol';
import { TokenBucket } from '@parlance/protocol/internal';
import type { Refusal } from '../../transport/http/site.js';

/** Limits per address and per principal: sessions, new sessions, connections and failures. */

const MINUTE_MS = 60_000;
/** The retry delay if too many sessions are open, as it is unknown when one ends. */
const FULL_RETRY_MS = 5_000;
/** Addresses without a session that are remembered; beyond them the oldest is forgotten. */
const MAX_IDLE_ADDRESSES = 10_000;

type QuotaLimits = Pick<
  Limits,
  | 'sessionsPerIp'
  | 'sessionsPerMinutePerIp'
  | 'connectionsPerMinutePerIp'
  | 'failuresPerMinutePerIp'
  | 'sessionsPerPrincipal'
>;

interface Address {
  sessions: number;
  /** New sessions. Refused attempts count too, up to a debt of one minute's worth. */
  readonly arrivals: TokenBucket | undefined;
  /** Upgrades, successful or not. */
  readonly connections: TokenBucket | undefined;
  /** Wrong credentials and failed handshakes. Attempts under way may add a debt of up to one minute's worth. */
  readonly failures: TokenBucket | undefined;
}

export class Quotas {
  readonly #limits: QuotaLimits;
  readonly #random: () => number;
  readonly #maxIdle: number;
  /** Addresses with sessions, so at most as many as there are sessions. */
  readonly #busy = new Map<string, Address>();
  /** Addresses without sessions, the most recently seen last. */
  readonly #idle = new Map<string, Address>();
  readonly #principals = new Map<string, number>();

  /** @param random returns a number from 0 up to 1, which spreads the retries of clients that are refused together. */
  constructor(limits: QuotaLimits, random: () => number = Math.random, maxIdle = MAX_IDLE_ADDRESSES) {
    this.#limits = limits;
    this.#random = random;
    this.#maxIdle = maxIdle;
  }

  /** The number of addresses and principals that are remembered. */
  get size(): number {
    return this.#busy.size + this.#idle.size + this.#principals.size;
  }

  /**
   * Counts a new session, or returns why it is refused.
   *
   * @param key the address, as `addressKey` returns it.
   * @param principal `undefined` without authentication.
   */
  admit(key: string, principal: string | undefined, now: number): Refusal | undefined {
    const address = this.#ask(key, now);
    const refusal = this.#check(address, principal, now);
    if (refusal !== undefined) return refusal;
    this.#occupy(key, address);
    if (principal !== undefined) this.#principals.set(principal, this.#sessionsOf(principal) + 1);
    return undefined;
  }

  /**
   * Counts a connection whose session is at another node like a session, or returns why it is refused. It counts as no new
   * session, and the other node counts its principal.
   */
  admitProxy(key: string, now: number): Refusal | undefined {
    const address = this.#find(key, now);
    const refusal = this.#refuseAddress(address);
    if (refusal === undefined) this.#occupy(key, address);
    return refusal;
  }

  /**
   * Counts a session that comes from another node, or returns why it is refused. It is not a new session.
   *
   * @param isProxied whether the connection that it takes over is counted already.
   */
  admitMoved(
    key: string,
    principal: string | undefined,
    isProxied: boolean,
    now: number,
  ): Refusal | undefined {
    const address = this.#find(key, now);
    const refusal =
      (isProxied ? undefined : this.#refuseAddress(address)) ?? this.#refusePrincipal(principal);
    if (refusal !== undefined) return refusal;
    this.#occupy(key, address);
    if (principal !== undefined) this.#principals.set(principal, this.#sessionsOf(principal) + 1);
    return undefined;
  }

  /** A session that was admitted, or a proxied connection, is over. */
  release(key: string, principal: string | undefined): void {
    const address = this.#busy.get(key);
    if (address !== undefined && --address.sessions === 0) {
      this.#busy.delete(key);
      this.#remember(key, address);
    }
    if (principal === undefined) return;
    const left = this.#sessionsOf(principal) - 1;
    if (left > 0) this.#principals.set(principal, left);
    else this.#principals.delete(principal);
  }

  /**
   * Counts an upgrade and returns 0, or returns for how many milliseconds the address gets HTTP 429: because it keeps
   * asking for twice the sessions that it may have, has failed too often, or connects too fast.
   */
  connect(key: string, now: number): number {
    const address = this.#find(key, now);
    const { arrivals, connections, failures } = address;
    const readyAt = Math.max(
      arrivals?.readyAt(this.#worstLevel, now) ?? now,
      failures?.readyAt(1, now) ?? now,
      connections?.readyAt(1, now) ?? now,
    );
    if (readyAt <= now) connections?.spend(1, now);
    return readyAt - now;
  }

  /** The limit because of which {@link connect} has just refused an address. */
  limitOf(key: string, now: number): keyof QuotaLimits {
    const { arrivals, connections, failures } = this.#find(key, now);
    if (connections?.has(1, now) === false) return 'connectionsPerMinutePerIp';
    if (failures?.has(1, now) === false) return 'failuresPerMinutePerIp';
    return arrivals === undefined ? 'connectionsPerMinutePerIp' : 'sessionsPerMinutePerIp';
  }

  /**
   * Returns why a client is refused before it is authenticated: too many attempts from its address have failed, or the
   * address may not have a new session anyway.
   *
   * @param isNew whether it asks for a new session and not to resume one.
   */
  checkAttempt(key: string, isNew: boolean, now: number): Refusal | undefined {
    const address = this.#find(key, now);
    const { failures, arrivals } = address;
    if (isNew && arrivals !== undefined && arrivals.level(now) < 1) {
      return this.#check(this.#ask(key, now), undefined, now);
    }
    if (failures === undefined || failures.has(1, now)) return undefined;
    const rate = this.#limits.failuresPerMinutePerIp;
    return this.#refuse(
      'failuresPerMinutePerIp',
      `failed attempts from one address are limited to ${rate} a minute`,
      failures.readyAt(1, now) - now,
    );
  }

  /** Credentials from an address were wrong, or a handshake failed. */
  fail(key: string, now: number): void {
    const { failures } = this.#find(key, now);
    if (failures?.has(1 - this.#limits.failuresPerMinutePerIp, now)) failures.spend(1, now);
  }

  /** Forgets addresses whose limits are unused again. */
  sweep(now: number): void {
    const { sessionsPerMinutePerIp, connectionsPerMinutePerIp, failuresPerMinutePerIp } = this.#limits;
    const isFull = (bucket: TokenBucket | undefined, rate: number) =>
      bucket === undefined || bucket.level(now) >= rate;
    for (const [key, { arrivals, connections, failures }] of this.#idle) {
      if (
        isFull(arrivals, sessionsPerMinutePerIp) &&
        isFull(connections, connectionsPerMinutePerIp) &&
        isFull(failures, failuresPerMinutePerIp)
      )
        this.#idle.delete(key);
    }
  }

  #occupy(key: string, address: Address): void {
    address.sessions++;
    this.#idle.delete(key);
    this.#busy.set(key, address);
  }

  /** The debt at which an address gets HTTP 429. */
  get #worstLevel(): number {
    return 1 - this.#limits.sessionsPerMinutePerIp;
  }

  #check(address: Address, principal: string | undefined, now: number): Refusal | undefined {
    const { arrivals } = address;
    const { sessionsPerMinutePerIp } = this.#limits;
    if (arrivals !== undefined && arrivals.level(now) < 0) {
      const delay = arrivals.readyAt(1, now) - now;
      return this.#refuse(
        'sessionsPerMinutePerIp',
        `new sessions from one address are limited to ${sessionsPerMinutePerIp} a minute`,
        delay,
      );
    }
    return this.#refuseAddress(address) ?? this.#refusePrincipal(principal);
  }

  #refuseAddress({ sessions }: Address): Refusal | undefined {
    const { sessionsPerIp } = this.#limits;
    if (sessions < sessionsPerIp) return undefined;
    const why = `sessions from one address are limited to ${sessionsPerIp}`;
    return this.#refuse('sessionsPerIp', why, FULL_RETRY_MS);
  }

  #refusePrincipal(principal: string | undefined): Refusal | undefined {
    const { sessionsPerPrincipal } = this.#limits;
    if (principal === undefined || this.#sessionsOf(principal) < sessionsPerPrincipal) return undefined;
    const why = `sessions of one principal are limited to ${sessionsPerPrincipal}`;
    return this.#refuse('sessionsPerPrincipal', why, FULL_RETRY_MS);
  }

  #refuse(limit: keyof QuotaLimits, message: string, delayMs: number): Refusal {
    return {
      limit,
      code: 'RATE_LIMITED',
      message,
      closeCode: CloseCode.RATE_LIMITED,
      retryAfterMs: Math.ceil(delayMs * (1 + this.#random())),
    };
  }

  #sessionsOf(principal: string): number {
    return this.#principals.get(principal) ?? 0;
  }

  /** The address with one more arrival, which counts even if it is refused. */
  #ask(key: string, now: number): Address {
    const address = this.#find(key, now);
    if (address.arrivals?.has(this.#worstLevel, now)) address.arrivals.spend(1, now);
    return address;
  }

  #find(key: string, now: number): Address {
    const { sessionsPerMinutePerIp, connectionsPerMinutePerIp, failuresPerMinutePerIp } = this.#limits;
    const address = this.#busy.get(key) ??
      this.#idle.get(key) ?? {
        sessions: 0,
        arrivals: bucketOf(sessionsPerMinutePerIp, now),
        connections: bucketOf(connectionsPerMinutePerIp, now),
        failures: bucketOf(failuresPerMinutePerIp, now),
      };
    if (address.sessions === 0) this.#remember(key, address);
    return address;
  }

  #remember(key: string, address: Address): void {
    this.#idle.delete(key);
    this.#idle.set(key, address);
    if (this.#idle.size <= this.#maxIdle) return;
    const [oldest] = this.#idle.keys();
    this.#idle.delete(oldest as string);
  }
}

function bucketOf(rate: number, now: number): TokenBucket | undefined {
  return rate === Infinity ? undefined : new TokenBucket(rate, rate / MINUTE_MS, now);
}
