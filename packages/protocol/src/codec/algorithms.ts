import { Algorithm } from '../base/constants.js';
import { BodyCodec } from './body.js';

/** How a body travelled: in a negotiated algorithm, in context, or as a tensor. */
export type BodyForm = Algorithm | 'CONTEXT' | 'AVP';

/** Which negotiated algorithm a body codec belongs to. AVP and context coding are none. */
const PAIRS: readonly (readonly [Algorithm, BodyCodec])[] = [
  [Algorithm.NONE, BodyCodec.PLAIN],
  [Algorithm.TOKEN_NATIVE, BodyCodec.TOKEN_NATIVE],
  [Algorithm.M2M, BodyCodec.M2M],
  [Algorithm.BROTLI, BodyCodec.BROTLI],
  [Algorithm.TOKEN, BodyCodec.TOKEN],
  [Algorithm.DICTIONARY, BodyCodec.DICTIONARY],
];
const BY_CODEC: ReadonlyMap<BodyCodec, Algorithm> = new Map(
  PAIRS.map(([algorithm, codec]) => [codec, algorithm]),
);

/** The algorithm of a codec, `undefined` where it is not negotiated as one. */
export function algorithmOf(codec: BodyCodec): Algorithm | undefined {
  return BY_CODEC.get(codec);
}

export function formOf(codec: BodyCodec): BodyForm {
  return BY_CODEC.get(codec) ?? (codec === BodyCodec.CONTEXT ? 'CONTEXT' : 'AVP');
}
