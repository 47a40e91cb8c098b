import { codecs } from '#codecs';
import { Algorithm } from '../base/constants.js';
import { loadable } from '../base/loadable.js';
import { loadedEncodings } from '../tokenizer/loaded.js';
import type { CapabilityOptions, DefaultsOptions } from './options.js';
import type { Parts } from './parts-node.js';
import { LIGHT, usualOffer } from './usual-offer.js';

const directory = loadable('the directory of agents', async () => {
  const [agents] = await Promise.all([import('./agents/module.js'), codecs.avp.load()]);
  return agents;
});

/** Needed for requests of either end, and for tensors. */
const requests = loadable('requests', () => import('./requests/module.js'));

/** Pages and workers: each part is imported when it is first needed. */
export const parts: Parts = {
  isLazy: true,
  defaults: async (options) => lightDefaults(options),
  usualOffer,
  agents: directory,
  answers: loadable('answers to requests', () => import('./requests/answers-module.js')),
  plain: loadable('sessions without a link', () => import('../session/plain-module.js')),
  coding: loadable('the text codecs', () => import('../codec/auto/coder.js')),
  delivery: directory,
  durable: loadable('durable sessions', async () => {
    const [durable] = await Promise.all([import('../session/durable/client-module.js'), requests.load()]);
    return durable;
  }),
  offers: loadable('offers', () => import('./offers-module.js')),
  requests,
  tensors: loadable('tensors', async () => {
    const [tensors] = await Promise.all([import('./tensors/module.js'), codecs.avp.load(), requests.load()]);
    return tensors;
  }),
};

/** Without M2M and Brotli, which take a megabyte, and without vocabularies that are not loaded. */
function lightDefaults({ algorithms, encodings, security }: DefaultsOptions): CapabilityOptions {
  const offered = encodings ?? [...loadedEncodings.keys()];
  if (algorithms !== undefined) {
    // A page that names TOKEN_NATIVE and no encoding gets the same ones as Node.
    const wantsAny =
      offered.length === 0 && encodings === undefined && algorithms.includes(Algorithm.TOKEN_NATIVE);
    return wantsAny ? {} : { encodings: offered };
  }
  if (security !== undefined) return { algorithms: [Algorithm.M2M] };
  return { encodings: offered, algorithms: offered.length > 0 ? [Algorithm.TOKEN_NATIVE, ...LIGHT] : LIGHT };
}
