import { Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { AVP_FIRST_BYTE, FrameKind, frameKind } from '../base/frame-kind.js';
import type { Limits } from '../base/limits.js';
import { decodeControl, decodeControlJson, MAX_CONTROL_SIZE } from '../control/envelope.js';
import type { ControlMessage, UnknownMessage } from '../control/messages.js';

/** What a WebSocket message is, apart from link frames. */
export type Incoming =
  | { readonly type: 'control'; readonly message: ControlMessage | UnknownMessage }
  /** A message without a link. */
  | { readonly type: 'bare'; readonly content: Uint8Array | string };

/**
 * Tells what a WebSocket message is.
 *
 * @param isAgreed whether ACCEPT was said; before that less is taken.
 * @param isHandshake whether a HELLO or an ACCEPT may come, which are larger than other control messages.
 * @throws {ProtocolError} `message_too_large`, `bad_frame`, and what decoding a control message throws.
 */
export function readIncoming(
  data: Uint8Array | string,
  subprotocol: Subprotocol,
  limits: Limits,
  isAgreed: boolean,
  isHandshake = !isAgreed,
): Incoming {
  const isBinary = subprotocol === Subprotocol.BINARY;
  // A UTF-16 unit is at least one byte of UTF-8, so units bound text as well as bytes do frames.
  const isTensor = data[0] === AVP_FIRST_BYTE;
  const largest = isTensor ? limits.maxTransferSize : limits.maxMessageSize;
  assertSize(data.length, isAgreed ? largest : limits.maxHandshakeSize);
  const { maxHandshakeSize } = limits;
  const maxControl = isHandshake ? maxHandshakeSize : Math.min(maxHandshakeSize, MAX_CONTROL_SIZE);
  if (typeof data === 'string') {
    if (isBinary) return { type: 'bare', content: data };
    return { type: 'control', message: decodeControlJson(data, limits, maxControl) };
  }
  if (!isBinary) throw new ProtocolError('bad_frame', `${Subprotocol.JSON} carries text messages only`);
  switch (frameKind(data)) {
    case FrameKind.CONTROL:
      return { type: 'control', message: decodeControl(data, limits, maxControl) };
    case FrameKind.LINK:
      throw new ProtocolError('bad_frame', 'a link frame where link was not negotiated');
    default:
      return { type: 'bare', content: data };
  }
}

function assertSize(size: number, max: number): void {
  if (size <= max) return;
  throw new ProtocolError('message_too_large', `a message of ${size} bytes, at most ${max} are taken here`);
}
