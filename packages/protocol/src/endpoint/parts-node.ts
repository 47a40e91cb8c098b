import type { Limits } from '../base/limits.js';
import { loaded } from '../base/loadable.js';
import * as coding from '../codec/auto/coder.js';
import type { Capabilities } from '../control/negotiate.js';
import * as durable from '../session/durable/client-module.js';
import * as plain from '../session/plain-module.js';
import * as agents from './agents/module.js';
import { installedDefaults } from './installed.js';
import * as offers from './offers-module.js';
import type { CapabilityOptions, DefaultsOptions, OfferOptions } from './options.js';
import * as answers from './requests/answers-module.js';
import * as requests from './requests/module.js';
import * as tensors from './tensors/module.js';

/**
 * The parts of an endpoint that not every session needs, as `#parts` names them. This is the list of Node, which imports
 * everything at the start; pages and workers have `parts-web.ts`.
 */
export const parts = {
  /** Sessions begin before the code of their codecs is loaded, as pages do not wait for it. */
  isLazy: false as boolean,
  /** The offer of a client here if its options leave it open. Without it, HELLO would offer everything. */
  defaults: installedDefaults as (options: DefaultsOptions) => Promise<CapabilityOptions>,
  /** The offer of options that most clients have; `undefined` for others, and here. */
  usualOffer: (() => undefined) as (options: OfferOptions, limits: Limits) => Capabilities | undefined,
  agents: loaded(agents),
  answers: loaded(answers),
  /** Sessions without a link, and JSON envelopes. */
  plain: loaded(plain),
  /** `auto` and the codecs for text. */
  coding: loaded(coding),
  /** Reports about messages that were not delivered. */
  delivery: loaded(agents),
  /** The client's end of sessions that their server records. */
  durable: loaded(durable),
  /** The offer of a client by its options. */
  offers: loaded(offers),
  /** Requests to the peer, and the half of a link that requests of either end and tensors need. */
  requests: loaded(requests),
  tensors: loaded(tensors),
};

export type Parts = typeof parts;
