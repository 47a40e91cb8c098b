import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CLIENT_LIMITS, resolveLimits } from '../base/limits.js';
import type { LaterCodec } from '../control/messages.js';
import type { Encoding } from '../tokenizer/encoding.js';
import { loadedEncodings } from '../tokenizer/loaded.js';
import { resolveCapabilities } from './offer.js';
import type { OfferOptions } from './options.js';
import { parts } from './parts-web.js';
import { usualOffer } from './usual-offer.js';

const USUAL = { extensions: { rebuild: false, move: true, durable: true } };
const limits = resolveLimits({}, CLIENT_LIMITS);

describe('the offer of most pages', () => {
  // Other tests of the process may have loaded some.
  const others = [...loadedEncodings];
  beforeEach(() => loadedEncodings.clear());
  afterEach(() => {
    loadedEncodings.clear();
    for (const [name, encoding] of others) loadedEncodings.set(name, encoding);
  });

  const loaded = (...codecs: LaterCodec[]) => ({
    isLoaded: (codec: LaterCodec) => codec === 'NONE' || codecs.includes(codec),
  });
  it.each<[string, OfferOptions]>([
    ['nothing', {}],
    ['no codec', loaded()],
    ['some codecs', loaded('TOKEN', 'CONTEXT')],
    ['all codecs', loaded('TOKEN', 'DICTIONARY', 'CONTEXT')],
  ])('is what follows from their options, with %s loaded', async (_what, more) => {
    const options = { ...USUAL, ...more };
    const offer = resolveCapabilities({ ...options, ...(await parts.defaults(options)) }, limits);
    expect(usualOffer(options, limits)).toEqual(offer);
    // HELLO lists them in this order.
    expect(JSON.stringify(usualOffer(options, limits))).toBe(JSON.stringify(offer));
  });

  it.each<[string, OfferOptions]>([
    ['algorithms', { algorithms: ['NONE'] }],
    ['encodings', { encodings: [] }],
    ['a scan', { securityScanning: false }],
    ['a way to take tensors', { transfers: 'assemble' }],
    ['a key', { security: {} }],
    ['statements', { statements: {} }],
    ['no reader', { takesMessages: true }],
    ['a switched extension', { extensions: { ...USUAL.extensions, context: true } }],
    ['a store', { extensions: { ...USUAL.extensions, rebuild: true } }],
    ['no extensions', { extensions: undefined }],
  ])('is not that of a page with %s', (_what, more) => {
    expect(usualOffer({ ...USUAL, ...more }, limits)).toBeUndefined();
  });

  it('is not that of a page with other limits, or with a vocabulary', () => {
    expect(usualOffer(USUAL, resolveLimits({ contextMessages: 7 }, CLIENT_LIMITS))).toBeUndefined();
    expect(
      usualOffer(USUAL, resolveLimits({ maxMessageSize: 16 * 1024 * 1024 }, CLIENT_LIMITS)),
    ).toBeUndefined();
    loadedEncodings.set('CL100K_BASE', {} as Encoding);
    expect(usualOffer(USUAL, limits)).toBeUndefined();
  });
});
