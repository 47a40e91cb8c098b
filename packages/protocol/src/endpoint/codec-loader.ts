import { codecs } from '#codecs';
import { parts } from '#parts';
import { type EncodingName, Extension } from '../base/constants.js';
import type { Loadable } from '../base/loadable.js';
import type { BodyForm } from '../codec/algorithms.js';
import type { Negotiated } from '../control/agreement.js';
import { loadedEncodings } from '../tokenizer/loaded.js';

/** Knows whether the code and the data of a codec are there, and loads them. */
export interface CodecLoader {
  /** Sessions begin before everything that they agreed on is loaded. */
  readonly isLazy: boolean;
  /** @param encoding the negotiated encoding, whose vocabulary TOKEN_NATIVE needs. */
  isReady(form: BodyForm, encoding: EncodingName | null): boolean;
  /** @throws {ProtocolError} if something cannot be loaded; the next call tries again. */
  load(form: BodyForm, encoding: EncodingName | null): Promise<unknown>;
}

const NEEDS: Readonly<Record<BodyForm, readonly Loadable<unknown>[]>> = {
  NONE: [],
  TOKEN: [parts.coding],
  DICTIONARY: [parts.coding],
  BROTLI: [parts.coding, codecs.brotli],
  M2M: [parts.coding, codecs.m2m],
  TOKEN_NATIVE: [parts.coding],
  CONTEXT: [parts.coding, codecs.context],
  AVP: [parts.tensors],
};

/** The loader of the platform. */
export const codecLoader: CodecLoader = {
  isLazy: parts.isLazy,

  isReady(form, encoding) {
    const hasVocabulary = form !== 'TOKEN_NATIVE' || (encoding !== null && loadedEncodings.has(encoding));
    return hasVocabulary && NEEDS[form].every(({ isLoaded }) => isLoaded);
  },

  async load(form, encoding) {
    const vocabulary = async () => {
      if (form !== 'TOKEN_NATIVE' || encoding === null || loadedEncodings.has(encoding)) return;
      await (await codecs.tokenizer.load()).loadEncoding(encoding);
    };
    await Promise.all([vocabulary(), ...NEEDS[form].map((needed) => needed.load())]);
  },
};

/**
 * Loads what a session needs, as its agreement says, before a server continues one that began in another process; `undefined` if
 * all of it is there.
 *
 * @throws {ProtocolError} if something cannot be loaded; the next call tries again.
 */
export function loadAgreed(
  { algorithms, encoding, extensions }: Pick<Negotiated, 'algorithms' | 'encoding' | 'extensions'>,
  loader: CodecLoader = codecLoader,
): Promise<void> | undefined {
  const hasContext = extensions[Extension.CONTEXT] !== undefined;
  const agreed: readonly BodyForm[] = hasContext ? [...algorithms, 'CONTEXT'] : algorithms;
  const missing = agreed.filter((form) => !loader.isReady(form, encoding));
  if (missing.length === 0) return undefined;
  return Promise.all(missing.map((form) => loader.load(form, encoding))).then(() => {});
}
