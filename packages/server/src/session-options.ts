import { type Capabilities, type SessionOptions, Subprotocol } from '@parlance/protocol';
import { AgreementCache, systemClock } from '@parlance/protocol/internal';
import type { ResolvedServerOptions } from './options.js';

/** What the sessions of a server can agree on, by subprotocol; the cores of all sessions share it. */
export class OfferedOptions {
  readonly #options: ResolvedServerOptions;
  readonly #bySubprotocol = new Map<Subprotocol, SessionOptions>();

  constructor(options: ResolvedServerOptions) {
    this.#options = options;
    this.offer(options.capabilities);
  }

  of(subprotocol: Subprotocol): SessionOptions {
    return this.#bySubprotocol.get(subprotocol) as SessionOptions;
  }

  /** Sets what sessions that begin from now on can agree on. */
  offer(capabilities: Capabilities): void {
    const { limits, timers, avp, security, durability } = this.#options;
    const { maxSessionBytes: maxRecordSize, tellsBeside } = durability ?? {};
    const { timeOrigin } = systemClock;
    const agreements = new AgreementCache();
    for (const subprotocol of Object.values(Subprotocol)) {
      const shared = {
        capabilities,
        limits,
        timers,
        avp,
        security,
        agreements,
        timeOrigin,
        maxRecordSize,
        tellsBeside,
      };
      this.#bySubprotocol.set(subprotocol, { role: 'server', subprotocol, ...shared });
    }
  }
}
