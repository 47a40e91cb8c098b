import { Prefix } from './constants.js';
import { ProtocolError } from './errors.js';

/**
 * The kinds of WebSocket message, told apart by the first byte (binary) or an exact prefix (text). The ranges
 * never overlap, so the first byte is enough.
 */
export const FrameKind = {
  /** TokenNative, binary form: tokenizer byte, then varint token IDs. */
  TOKEN_NATIVE: 'token-native',
  /** A link frame: kind, stream, codec, body. */
  LINK: 'link',
  /** `#M2M|1|` binary, or any text form sent as UTF-8. */
  TAGGED: 'tagged',
  AVP: 'avp',
  /** A control envelope: a MessagePack map. */
  CONTROL: 'control',
} as const;
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

/** First byte of link frames; the low nibble is the kind. */
export const LINK_FIRST_BYTE = 0x10;
/** `A` of the magic number `AV`. */
export const AVP_FIRST_BYTE = 0x41;

/**
 * @throws {ProtocolError} `bad_frame` if the frame is empty or no kind of frame begins with its first byte.
 */
export function frameKind(bytes: Uint8Array): FrameKind {
  const first = bytes[0];
  if (first === undefined) throw new ProtocolError('bad_frame', 'the frame is empty');
  if (first <= 0x02) return FrameKind.TOKEN_NATIVE;
  if (first >= 0x10 && first <= 0x1f) return FrameKind.LINK;
  if (first === 0x23) return FrameKind.TAGGED;
  if (first === AVP_FIRST_BYTE) return FrameKind.AVP;
  if ((first >= 0x80 && first <= 0x8f) || first === 0xde || first === 0xdf) return FrameKind.CONTROL;
  throw new ProtocolError('bad_frame', `no frame begins with byte 0x${first.toString(16).padStart(2, '0')}`);
}

const PREFIXES: readonly Prefix[] = Object.values(Prefix);

/** The known prefix that `text` begins with, or `undefined` for plain content. */
export function prefixOf(text: string): Prefix | undefined {
  if (!text.startsWith('#')) return undefined;
  return PREFIXES.find((prefix) => text.startsWith(prefix));
}
