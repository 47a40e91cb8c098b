import { CloseCode, type Limits } from '@parlance/protocol';
import { TokenBucket } from '@parlance/protocol/internal';
import type { Refusal } from './admission.js';

/**
 * How many sessions there are of an address and of a principal, how fast new ones come, and how often an
 * address connects and fails.
 */

const MINUTE_MS = 60_000;
/** When to try again where nobody knows when a session ends. */
const FULL_RETRY_MS = 5_000;
/** Addresses without a session that are remembered; beyond them the one is forgotten that came first. */
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
  /** New sessions; what is refused is owed as well, up to another minute's worth. */
  readonly arrivals: TokenBucket | undefined;
  /** Upgrades, also those that come to nothing. */
  readonly connections: TokenBucket | undefined;
  /** Wrong credentials and failed handshakes; those under way may be owed, up to another minute's worth. */
  readonly failures: TokenBucket | undefined;
}

export class Quotas {
  readonly #limits: QuotaLimits;
  readonly #random: () => number;
  readonly #maxIdle: number;
  /** Addresses with sessions; there are no more of them than sessions. */
  readonly #busy = new Map<string, Address>();
  /** Addresses that have asked lately, in the order in which they did. */
  readonly #idle = new Map<string, Address>();
  readonly #principals = new Map<string, number>();

  /** @param random a number from 0 up to 1, so that those who are refused together do not return together. */
  constructor(limits: QuotaLimits, random: () => number = Math.random, maxIdle = MAX_IDLE_ADDRESSES) {
    this.#limits = limits;
    this.#random = random;
    this.#maxIdle = maxIdle;
  }

  /** Addresses and principals that are remembered. */
  get size(): number {
    return this.#busy.size + this.#idle.size + this.#principals.size;
  }

  /**
   * Counts a new session, or says why there is to be none.
   *
   * @param key the address, as `addressKey` makes it.
   * @param principal `undefined` where nobody was authenticated.
   */
  admit(key: string, principal: string | undefined, now: number): Refusal | undefined {
    const address = this.#ask(key, now);
    const refusal = this.#check(address, principal, now);
    if (refusal !== undefined) return refusal;
    address.sessions++;
    this.#idle.delete(key);
    this.#busy.set(key, address);
    if (principal !== undefined) this.#principals.set(principal, this.#sessionsOf(principal) + 1);
    return undefined;
  }

  /** A session that was admitted is over. */
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
   * Counts an upgrade, or returns for how many milliseconds the address is told nothing but HTTP 429: because
   * it goes on asking for twice the sessions that it may have, has failed too often, or connects too fast.
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

  /**
   * Why a client at an address is not authenticated: too many attempts from there have failed, or there is no new
   * session to be had whoever it is.
   *
   * @param isNew it asks for a new session, and not for one that it had.
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
      `failed attempts from one address are limited to ${rate} a minute`,
      failures.readyAt(1, now) - now,
    );
  }

  /** Credentials from an address were wrong, or a handshake failed. */
  fail(key: string, now: number): void {
    const { failures } = this.#find(key, now);
    if (failures?.has(1 - this.#limits.failuresPerMinutePerIp, now)) failures.spend(1, now);
  }

  /** Forgets addresses about which there is nothing to remember. */
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

  /** What an address may owe before it is not listened to any more. */
  get #worstLevel(): number {
    return 1 - this.#limits.sessionsPerMinutePerIp;
  }

  #check({ sessions, arrivals }: Address, principal: string | undefined, now: number): Refusal | undefined {
    const { sessionsPerIp, sessionsPerMinutePerIp, sessionsPerPrincipal } = this.#limits;
    if (arrivals !== undefined && arrivals.level(now) < 0) {
      const delay = arrivals.readyAt(1, now) - now;
      return this.#refuse(
        `new sessions from one address are limited to ${sessionsPerMinutePerIp} a minute`,
        delay,
      );
    }
    if (sessions >= sessionsPerIp)
      return this.#refuse(`sessions from one address are limited to ${sessionsPerIp}`, FULL_RETRY_MS);
    if (principal !== undefined && this.#sessionsOf(principal) >= sessionsPerPrincipal)
      return this.#refuse(`sessions of one principal are limited to ${sessionsPerPrincipal}`, FULL_RETRY_MS);
    return undefined;
  }

  #refuse(message: string, delayMs: number): Refusal {
    return {
      code: 'RATE_LIMITED',
      message,
      closeCode: CloseCode.RATE_LIMITED,
      retryAfterMs: Math.ceil(delayMs * (1 + this.#random())),
    };
  }

  #sessionsOf(principal: string): number {
    return this.#principals.get(principal) ?? 0;
  }

  /** The address with one more arrival, which counts whether it is admitted or not. */
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
