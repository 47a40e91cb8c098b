import { loaded } from '../base/loadable.js';
import * as coding from '../codec/auto/coder.js';
import * as bare from '../session/bare-module.js';
import * as durable from '../session/durable/client-module.js';
import * as agents from './agents/module.js';
import { installedDefaults } from './installed.js';
import type { Parts } from './parts.js';
import * as answers from './requests/answers-module.js';
import * as requests from './requests/module.js';
import * as tensors from './tensors/module.js';

/** Node: everything is imported at the start. */
export const parts: Parts = {
  isLazy: false,
  defaults: installedDefaults,
  agents: loaded(agents),
  answers: loaded(answers),
  bare: loaded(bare),
  coding: loaded(coding),
  durable: loaded(durable),
  requests: loaded(requests),
  tensors: loaded(tensors),
};
