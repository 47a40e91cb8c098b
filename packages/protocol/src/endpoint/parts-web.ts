import { codecs } from '#codecs';
import { loadable } from '../base/loadable.js';
import type { Parts } from './parts.js';

/** Pages and workers: each part is imported when it is first needed. */
export const parts: Parts = {
  isLazy: true,
  agents: loadable('the directory of agents', async () => {
    const [agents] = await Promise.all([import('./agents/module.js'), codecs.avp.load()]);
    return agents;
  }),
  answers: loadable('answers to requests', () => import('./requests/answers-module.js')),
  bare: loadable('sessions without a link', () => import('../session/bare-module.js')),
  coding: loadable('the text codecs', () => import('../codec/auto/coder.js')),
  requests: loadable('requests', () => import('./requests/module.js')),
  tensors: loadable('tensors', async () => {
    const [tensors] = await Promise.all([import('./tensors/module.js'), codecs.avp.load()]);
    return tensors;
  }),
};
