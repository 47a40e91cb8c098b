import { codecs } from '#codecs';
import { parts } from '#parts';
import type { EncodingName } from '../base/constants.js';
import type { Loadable } from '../base/loadable.js';
import type { BodyForm } from '../codec/algorithms.js';
import type { LaterCodec } from '../control/messages.js';

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
  TOKEN_NATIVE: [parts.coding, codecs.tokenizer],
  CONTEXT: [parts.coding, codecs.context],
  AVP: [parts.tensors],
};

export const codecLoader: CodecLoader = {
  isLazy: parts.isLazy,

  isReady: (form, encoding) =>
    NEEDS[form].every(({ isLoaded }) => isLoaded) &&
    (form !== 'TOKEN_NATIVE' ||
      (encoding !== null && codecs.tokenizer.get().getEncoding(encoding) !== undefined)),

  load: (form, encoding) =>
    Promise.all([
      ...NEEDS[form].map((needed) => needed.load()),
      form === 'TOKEN_NATIVE' && encoding !== null
        ? codecs.tokenizer.load().then(({ loadEncoding }) => loadEncoding(encoding))
        : undefined,
    ]),
};

/** The codecs that HELLO offers although their code is not loaded. */
export function laterOf(offered: readonly LaterCodec[], loader: CodecLoader): LaterCodec[] {
  return loader.isLazy ? offered.filter((codec) => !loader.isReady(codec, null)) : [];
}
