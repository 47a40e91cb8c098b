import type { Loadable } from '../base/loadable.js';

/**
 * The codec logic that not every session needs. `#codecs` is one of two implementations: `modules-node.ts`
 * imports everything at once, `modules-web.ts` imports each part when it is first needed.
 */
export interface CodecModules {
  readonly avp: Loadable<typeof import('./avp/module.js')>;
  /** Brotli of the platform. */
  readonly brotli: Loadable<void>;
  /** Context coding, with zstd. */
  readonly context: Loadable<typeof import('./context/module.js')>;
  /** M2M with its cryptography and Brotli. */
  readonly m2m: Loadable<typeof import('./m2m/module.js')>;
  /** The tokenizer, without any vocabulary. */
  readonly tokenizer: Loadable<typeof import('./vocabulary/load.js')>;
}
