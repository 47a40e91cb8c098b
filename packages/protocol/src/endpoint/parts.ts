import type { Loadable } from '../base/loadable.js';
import type { CapabilityOptions } from './options.js';

/**
 * The parts of an endpoint that not every session needs. `#parts` is one of two implementations: `parts-node.ts`
 * imports everything at once, `parts-web.ts` imports each part when it is first needed.
 */
export interface Parts {
  /** Sessions begin before the code of their codecs is loaded, as pages do not wait for it. */
  readonly isLazy: boolean;
  /** What a client offers here if its options leave it open, and HELLO would otherwise offer everything. */
  readonly defaults: (options: DefaultsOptions) => Promise<CapabilityOptions>;
  readonly agents: Loadable<typeof import('./agents/module.js')>;
  readonly answers: Loadable<typeof import('./requests/answers-module.js')>;
  /** Sessions without a link, and JSON envelopes. */
  readonly bare: Loadable<typeof import('../session/bare-module.js')>;
  /** `auto` and the codecs for text. */
  readonly coding: Loadable<typeof import('../codec/auto/coder.js')>;
  /** The client's end of sessions that their server has on record. */
  readonly durable: Loadable<typeof import('../session/durable/client-module.js')>;
  readonly requests: Loadable<typeof import('./requests/module.js')>;
  readonly tensors: Loadable<typeof import('./tensors/module.js')>;
}

export interface DefaultsOptions extends CapabilityOptions {
  readonly security?: object | undefined;
}
