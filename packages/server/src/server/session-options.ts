import { type Capabilities, type SessionOptions, Subprotocol } from '@parlance/protocol';
import {
  AgreementCache,
  resolveCapabilities,
  SWITCHED_EXTENSIONS,
  systemClock,
} from '@parlance/protocol/internal';
import type { InstalledFeatures } from './features/installed-features.js';
import type { ResolvedServerOptions } from './options.js';

/** Features say which of them sessions may agree on. */
const NONE = Object.fromEntries(Object.keys(SWITCHED_EXTENSIONS).map((name) => [name, false]));

/** The options that sessions of a server can agree on, by subprotocol. The cores of all sessions share them. */
export class OfferedOptions {
  readonly #options: ResolvedServerOptions;
  readonly #features: Pick<InstalledFeatures, 'core'>;
  readonly #bySubprotocol = new Map<Subprotocol, SessionOptions>();
  readonly capabilities: Capabilities;

  /** @throws {ProtocolError} `invalid_option`. */
  constructor(
    options: ResolvedServerOptions,
    features: Pick<InstalledFeatures, 'core' | 'endpoint' | 'offer' | 'extensions'>,
  ) {
    this.#options = options;
    this.#features = features;
    const { capabilities, onSession, limits, security } = options;
    const offer = {
      ...{ ...capabilities, ...features.offer, ...features.core, security },
      ...{ transfers: features.endpoint.transfers, takesMessages: onSession !== undefined },
      extensions: { ...NONE, rebuild: true, ...features.extensions },
    };
    this.capabilities = resolveCapabilities(offer, limits);
    this.offer(this.capabilities);
  }

  of(subprotocol: Subprotocol): SessionOptions {
    return this.#bySubprotocol.get(subprotocol) as SessionOptions;
  }

  /** Sets what sessions that begin from now on can agree on. */
  offer(capabilities: Capabilities): void {
    const { limits, timers, security } = this.#options;
    const agreements = new AgreementCache();
    const own = { capabilities, limits, timers, security, agreements };
    for (const subprotocol of Object.values(Subprotocol))
      this.#bySubprotocol.set(subprotocol, {
        role: 'server',
        subprotocol,
        ...own,
        get timeOrigin() {
          return systemClock.timeOrigin;
        },
        ...this.#features.core,
      });
  }
}
