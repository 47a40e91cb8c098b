import { loadable } from '../base/loadable.js';
import type { CodecModules } from './modules.js';

/** Pages and workers: each part is imported when it is first needed. */

const importPlatform = async () => (await import('#platform')).platform;

const brotli = loadable('Brotli', async () => {
  await (await importPlatform()).loadBrotli();
});

export const codecs: CodecModules = {
  avp: loadable('AVP', () => import('./avp/module.js')),
  brotli,
  context: loadable('context coding', async () => {
    const [context, platform] = await Promise.all([import('./context/module.js'), importPlatform()]);
    await platform.loadZstd();
    return context;
  }),
  m2m: loadable('M2M', async () => {
    const [m2m] = await Promise.all([import('./m2m/module.js'), brotli.load()]);
    return m2m;
  }),
  tokenizer: loadable('the tokenizer', () => import('./vocabulary/load.js')),
};
