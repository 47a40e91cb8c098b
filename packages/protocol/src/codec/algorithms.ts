import { Algorithm } from '../base/constants.js';
import { LinkCodec } from '../link/frame.js';

/** How a body travelled: in a negotiated algorithm, in context, or as a tensor. */
export type BodyForm = Algorithm | 'CONTEXT' | 'AVP';

/** Which negotiated algorithm a body codec belongs to. AVP and context coding are none. */
const PAIRS: readonly (readonly [Algorithm, LinkCodec])[] = [
  [Algorithm.NONE, LinkCodec.PLAIN],
  [Algorithm.TOKEN_NATIVE, LinkCodec.TOKEN_NATIVE],
  [Algorithm.M2M, LinkCodec.M2M],
  [Algorithm.BROTLI, LinkCodec.BROTLI],
  [Algorithm.TOKEN, LinkCodec.TOKEN],
  [Algorithm.DICTIONARY, LinkCodec.DICTIONARY],
];
const BY_CODEC: ReadonlyMap<LinkCodec, Algorithm> = new Map(
  PAIRS.map(([algorithm, codec]) => [codec, algorithm]),
);

/** The algorithm of a codec, `undefined` where it is not negotiated as one. */
export function algorithmOf(codec: LinkCodec): Algorithm | undefined {
  return BY_CODEC.get(codec);
}

export function formOf(codec: LinkCodec): BodyForm {
  return BY_CODEC.get(codec) ?? (codec === LinkCodec.CONTEXT ? 'CONTEXT' : 'AVP');
}
