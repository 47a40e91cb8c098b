import { Algorithm, Extension, OFF_BY_DEFAULT, SWITCHED_EXTENSIONS } from '../base/constants.js';
import { CLIENT_LIMITS, type Limits } from '../base/limits.js';
import type { LaterCodec } from '../control/messages.js';
import type { Capabilities } from '../control/negotiate.js';
import { STANDARD_PARAMETERS } from '../control/standard.js';
import { loadedEncodings } from '../tokenizer/loaded.js';
import type { OfferOptions } from './options.js';

/** The codecs that a page offers without a vocabulary. */
export const LIGHT: readonly Algorithm[] = [Algorithm.TOKEN, Algorithm.DICTIONARY, Algorithm.NONE];

/** Options that leave the offer as it is if they are not given. */
const UNUSUAL = [
  'algorithms',
  'encodings',
  'securityScanning',
  'avp',
  'transfers',
  'statements',
  'security',
  'takesMessages',
] as const satisfies readonly (keyof OfferOptions)[];

/** The extensions that `connect` switches by itself, as most pages leave them. */
const usualSwitches = () =>
  Object.fromEntries(OFF_BY_DEFAULT.map((name) => [name, name !== Extension.REBUILD]));

/**
 * The offer of most pages, without the code that makes an offer of options; `undefined` for other options. The
 * parameters of link and context are the standard ones of the protocol, which follow from the default limits.
 */
export function usualOffer(options: OfferOptions, limits: Limits): Capabilities | undefined {
  const names = Object.keys(CLIENT_LIMITS) as (keyof Limits)[];
  const isUsual =
    loadedEncodings.size === 0 &&
    UNUSUAL.every((name) => options[name] === undefined) &&
    JSON.stringify(options.extensions) === JSON.stringify(usualSwitches()) &&
    names.every((name) => limits[name] === CLIENT_LIMITS[name]);
  if (!isUsual) return undefined;
  const extensions: Record<string, string> = Object.create(null);
  for (const [name, statement] of Object.entries(SWITCHED_EXTENSIONS)) {
    const parameters = STANDARD_PARAMETERS[name];
    const stated = parameters === undefined ? statement : JSON.stringify(parameters);
    if (stated !== '' && name !== Extension.REBUILD) extensions[name] = stated;
  }
  const codecs: readonly LaterCodec[] = [...LIGHT, 'CONTEXT'];
  const later = codecs.filter((codec) => options.isLoaded?.(codec, null) === false);
  if (later.length > 0 || options.isLoaded === undefined) extensions[Extension.READY] = JSON.stringify(later);
  extensions[Extension.STANDARD] = '1';
  return {
    algorithms: LIGHT,
    encodings: [],
    vocabularies: {},
    securityScanning: false,
    maxPayloadSize: limits.maxMessageSize,
    extensions: Object.freeze(extensions),
  };
}
