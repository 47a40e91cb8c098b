import { platform } from '#platform';
import { type Loadable, loadable, loaded } from '../base/loadable.js';
import * as avp from './avp/module.js';
import * as context from './context/module.js';
import * as m2m from './m2m/module.js';
import type { CodecModules } from './modules.js';
import * as tokenizer from './vocabulary/load.js';

/** Node: everything is imported at the start. Only zstd is loaded, in versions without one of their own. */
export const codecs: CodecModules = {
  avp: loaded(avp),
  brotli: loaded(undefined),
  context: withZstd(context),
  m2m: loaded(m2m),
  tokenizer: loaded(tokenizer),
};

/** A session may begin without a pause if `isLoaded` says so, which native zstd makes true at once. */
function withZstd<Exports>(exports: Exports): Loadable<Exports> {
  const zstd = loadable('zstd', async () => {
    await platform.loadZstd();
    return exports;
  });
  return {
    get isLoaded() {
      return platform.isZstdLoaded();
    },
    get: () => exports,
    load: () => zstd.load(),
  };
}
