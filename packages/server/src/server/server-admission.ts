import { type Limits, ProtocolError } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import { Quotas } from '../session/admission/quotas.js';
import type { ServerObserver } from '../session/observer.js';
import type { Refusal } from '../transport/http/site.js';
import { drainingRefusal } from './drain.js';
import type { InstalledFeatures } from './features/installed-features.js';

/** Which clients a server admits, by its own state, by its features, and by the quotas of addresses and principals. */
export abstract class ServerAdmission {
  readonly quotas: Quotas;
  abstract readonly features: Pick<InstalledFeatures, 'refuses'>;
  /** `undefined` without metrics. */
  abstract readonly observer: ServerObserver | undefined;
  protected abstract readonly isDraining: boolean;
  isClosing = false;
  /** Clients come back within this many milliseconds. */
  returnWithinMs = 0;

  constructor(limits: Limits) {
    this.quotas = new Quotas(limits);
  }

  /** The refusal of new sessions while the server drains or closes. */
  admitAny(): Refusal | undefined {
    return this.isDraining ? drainingRefusal(this.returnWithinMs) : this.admitProxied();
  }

  /** The refusal of connections that other nodes proxy, while the server closes. */
  admitProxied(): Refusal | undefined {
    return this.isClosing ? drainingRefusal(this.returnWithinMs) : undefined;
  }

  admit(address: string, principal: string | undefined): Refusal | undefined {
    const refused = this.admitAny() ?? this.features.refuses();
    return refused ?? this.quotas.admit(address, principal, systemClock.now());
  }

  admitProxy(address: string): Refusal | undefined {
    return this.admitAny() ?? this.quotas.admitProxy(address, systemClock.now());
  }

  /** Refuses a session of a node that has died, while draining or beyond a quota. It is not a new session. */
  admitTakenOver(address: string, principal: string | undefined): Refusal | undefined {
    return this.admitAny() ?? this.quotas.admitMoved(address, principal, false, systemClock.now());
  }

  /** @throws {ProtocolError} `rate_limited`. */
  admitMoved(address: string, principal: string | undefined, isProxied: boolean): void {
    const refused = this.quotas.admitMoved(address, principal, isProxied, systemClock.now());
    if (refused !== undefined) throw new ProtocolError('rate_limited', refused.message);
  }

  /** Counts an upgrade and returns 0, or returns the milliseconds for which the address gets HTTP 429. */
  connect(address: string): number {
    const now = systemClock.now();
    const waitMs = this.quotas.connect(address, now);
    if (waitMs > 0) this.observer?.handleLimited(this.quotas.limitOf(address, now));
    return waitMs;
  }

  release(address: string, principal: string | undefined): void {
    this.quotas.release(address, principal);
  }
}
