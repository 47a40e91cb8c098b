import type { Algorithm } from '../base/constants.js';
import { BodyCodec } from './body.js';

/** How a body travelled: in a negotiated algorithm, in context, or as a tensor. */
export type BodyForm = Algorithm | 'CONTEXT' | 'AVP';

/** The body codec of each algorithm. AVP and context coding are not negotiated as algorithms. */
export const CODEC_OF = {
  NONE: BodyCodec.PLAIN,
  TOKEN_NATIVE: BodyCodec.TOKEN_NATIVE,
  M2M: BodyCodec.M2M,
  BROTLI: BodyCodec.BROTLI,
  TOKEN: BodyCodec.TOKEN,
  DICTIONARY: BodyCodec.DICTIONARY,
} as const satisfies Record<Algorithm, BodyCodec>;

const ALGORITHM_OF: ReadonlyMap<BodyCodec, Algorithm> = new Map(
  Object.entries(CODEC_OF).map(([algorithm, codec]) => [codec, algorithm as Algorithm]),
);

/** The algorithm of a codec; `undefined` if the codec is not negotiated as one. */
export function algorithmOf(codec: BodyCodec): Algorithm | undefined {
  return ALGORITHM_OF.get(codec);
}

export function formOf(codec: BodyCodec): BodyForm {
  return ALGORITHM_OF.get(codec) ?? (codec === BodyCodec.CONTEXT ? 'CONTEXT' : 'AVP');
}
