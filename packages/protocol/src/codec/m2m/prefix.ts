import { Prefix } from '../../base/constants.js';
import { encodeUtf8 } from '../../base/text.js';

export const PREFIX_BYTES = encodeUtf8(Prefix.M2M);

/** Whether bytes or text begin like an M2M v1 frame. */
export function isM2M(frame: Uint8Array | string): boolean {
  if (typeof frame === 'string') return frame.startsWith(Prefix.M2M);
  return PREFIX_BYTES.every((byte, i) => frame[i] === byte);
}
