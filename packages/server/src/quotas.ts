import { CloseCode, type Limits, TokenBucket } from '@parlance/protocol';
import type { Refusal } from './admission.js';

/** How many sessions there are of an address and of a principal, and how fast new ones come. */

const MINUTE_MS = 60_000;
/** When to try again where nobody knows when a session ends. */
const FULL_RETRY_MS = 5_000;
/** Addresses without a session that are remembered; beyond them the one is forgotten that came first. */
const MAX_IDLE_ADDRESSES = 10_000;

type QuotaLimits = Pick<Limits, 'sessionsPerIp' | 'sessionsPerMinutePerIp' | 'sessionsPerPrincipal'>;

interface Address {
  sessions: number;
  /** New sessions; what is refused is owed as well, up to another minute's worth. */
  readonly arrivals: TokenBucket | undefined;
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
   * Milliseconds for which an address is told nothing but HTTP 429, as it goes on asking for twice what it
   * may have; 0 where it is listened to.
   */
  banMs(key: string, now: number): number {
    const arrivals = (this.#busy.get(key) ?? this.#idle.get(key))?.arrivals;
    if (arrivals === undefined) return 0;
    return arrivals.readyAt(this.#worstLevel, now) - now;
  }

  /** Forgets addresses about which there is nothing to remember. */
  sweep(now: number): void {
    const rate = this.#limits.sessionsPerMinutePerIp;
    for (const [key, { arrivals }] of this.#idle) {
      if (arrivals === undefined || arrivals.level(now) >= rate) this.#idle.delete(key);
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
    let address = this.#busy.get(key) ?? this.#idle.get(key);
    if (address === undefined) {
      const rate = this.#limits.sessionsPerMinutePerIp;
      const arrivals = rate === Infinity ? undefined : new TokenBucket(rate, rate / MINUTE_MS, now);
      address = { sessions: 0, arrivals };
    }
    if (address.sessions === 0) this.#remember(key, address);
    if (address.arrivals?.has(this.#worstLevel, now)) address.arrivals.spend(1, now);
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
