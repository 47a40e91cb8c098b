import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { AVP_FIRST_BYTE, FrameKind, frameKind, LINK_FIRST_BYTE } from '../base/frame-kind.js';
import type { Limits } from '../base/limits.js';
import type { BodyCodec, SecurityStatus } from '../codec/body.js';
import { decodeEnvelope } from '../control/forms.js';
import { MAX_CONTROL_SIZE } from '../control/maps.js';
import type { ClosePayload, ControlMessage, DataPayload, UnknownMessage } from '../control/messages.js';
import { isCounted, isOfStream, type LinkKind } from '../link/frame.js';
import type { SessionCode } from './channel-module.js';
import { jsonEnvelopes } from './control-writer.js';
import type { Role, RoleHost } from './role.js';

/** Reads received WebSocket messages and hands each to the part of the session that handles it. */

/** The session, as the functions below see it. */
export interface Receiver
  extends Pick<
    RoleHost,
    'options' | 'timers' | 'control' | 'channel' | 'id' | 'negotiated' | 'isLost' | 'emit'
  > {
  readonly role: Role;
  readonly code: SessionCode;
  readonly limits: Limits;
  /** Set while the codecs of the session are being loaded. */
  readonly held: HeldFrames | undefined;
  /** The peer's CLOSE was received, so no counted frame may follow. */
  readonly hasReceivedClose: boolean;
  unknownMessages: number;
  /** The codec of a body in a link frame, if its code has to be loaded first. */
  missingCodec(frame: Uint8Array): BodyCodec | undefined;
  holdFrames(): HeldFrames;
  handleClose(payload: ClosePayload): void;
}

/** The type of the message with which a server says that its answer to HELLO takes time. */
export const WAIT = 'WAIT';
export const WAIT_IS_OF_SERVERS = `${WAIT} is for a server to send`;

/** Handles a WebSocket message. @throws {ProtocolError} if it breaks the protocol. */
export function receive(session: Receiver, data: Uint8Array | string): void {
  const isLink = typeof data !== 'string' && (data[0] ?? 0) >> 4 === LINK_FIRST_BYTE >> 4;
  if (isLink && (session.channel.hasLink || awaitsLink(session))) return receiveLinkFrame(session, data);
  const isAgreed = session.negotiated !== undefined;
  const incoming = readIncoming(data, session, isAgreed, !isAgreed || session.isLost);
  if (incoming.type === 'control') receiveControl(session, incoming.message, data);
  else if (session.held !== undefined) session.held.add(data);
  else receivePlain(session, incoming.content);
}

/** The code of the channel is being loaded. */
function awaitsLink({ held, negotiated }: Receiver): boolean {
  return held !== undefined && negotiated?.extensions[Extension.LINK] !== undefined;
}

function receiveLinkFrame(session: Receiver, frame: Uint8Array): void {
  if (session.isLost) throw new ProtocolError('protocol_violation', 'a link frame before ACCEPT');
  if (session.held !== undefined) return session.held.add(frame);
  const kind = ((frame[0] ?? 0) & 0x0f) as LinkKind;
  if (isOfStream(kind) && !session.code.streams.isLoaded) {
    session.holdFrames().add(frame);
    return session.emit({ type: 'streams' });
  }
  const codec = session.missingCodec(frame);
  if (codec !== undefined) {
    session.holdFrames().add(frame);
    return session.emit({ type: 'codec', codec });
  }
  session.role.handleLinkFrame();
  // Acknowledgements and credit are sent after CLOSE too.
  if (isCounted(kind)) {
    assertNotClosed(session);
    session.timers.touch();
  }
  const event = session.channel.handleLinkFrame(frame, session.timers.now);
  if (event !== undefined) session.emit(event);
}

function receivePlain(
  session: Receiver,
  content: Uint8Array | string,
  securityStatus?: SecurityStatus,
): void {
  assertNotClosed(session);
  const event = session.channel.handlePlain(content, session.timers.now, securityStatus);
  session.timers.touch();
  session.emit(event);
}

/** A closing session receives data until the peer's CLOSE. */
function assertNotClosed(session: Receiver): void {
  if (session.hasReceivedClose) throw new ProtocolError('protocol_violation', 'a frame after CLOSE');
}

function receiveControl(
  session: Receiver,
  message: ControlMessage | UnknownMessage,
  frame: Uint8Array | string,
): void {
  const { type, sessionId } = message;
  const { role, timers, held } = session;
  if (type !== 'DATA') role.limiter?.handleControl(timers.now);
  if (type === 'UNKNOWN') {
    if (message.name === WAIT) {
      if (session.options.role === 'server')
        throw new ProtocolError('protocol_violation', WAIT_IS_OF_SERVERS);
      // It has been of use to the driver already.
      return;
    }
    // Only the first one is reported, so that a peer that sends more of them cannot fill the log.
    if (session.unknownMessages++ > 0) return;
    session.emit({ type: 'warning', message: 'a message of unknown type was ignored' });
    return;
  }
  // ACCEPT may begin a new session, with an ID of its own, on a connection that was to resume this one.
  if (session.id !== undefined && sessionId !== null && sessionId !== session.id && type !== 'ACCEPT') {
    throw new ProtocolError('bad_message', `${type} names another session`);
  }
  const isHandshake = type === 'HELLO' || type === 'ACCEPT' || type === 'REJECT';
  if (!isHandshake && session.negotiated === undefined) {
    throw new ProtocolError('protocol_violation', `${type} before ACCEPT`);
  }
  switch (type) {
    case 'DATA': {
      const content = contentOf(message.payload, session.options.subprotocol);
      if (held !== undefined) return held.add(frame);
      return receivePlain(session, content, message.payload.securityStatus);
    }
    case 'PING':
      return session.control.send({ type: 'PONG', payload: {} });
    case 'PONG':
      timers.liveness.handlePong(timers.now);
      return role.handlePong();
    case 'CLOSE':
      if (session.isLost) throw new ProtocolError('protocol_violation', 'CLOSE before ACCEPT');
      if (held !== undefined) return held.add(frame);
      return session.handleClose(message.payload);
    default:
      return role.handleControl(message, frame);
  }
}

function contentOf({ content }: DataPayload, subprotocol: Subprotocol): string {
  if (subprotocol === Subprotocol.BINARY) {
    throw new ProtocolError('protocol_violation', `DATA belongs to ${Subprotocol.JSON}`);
  }
  if (typeof content === 'string') return content;
  throw new ProtocolError('bad_message', 'content must be a string');
}

/** A WebSocket message that is not a link frame. */
export type Incoming =
  | { readonly type: 'control'; readonly message: ControlMessage | UnknownMessage }
  /** A message without a link. */
  | { readonly type: 'bare'; readonly content: Uint8Array | string };

/**
 * Decodes control messages and leaves bare ones as they are.
 *
 * @param isAgreed whether ACCEPT was exchanged; before that messages must be smaller.
 * @param isHandshake whether a HELLO or an ACCEPT may arrive, which are larger than other control messages.
 * @throws {ProtocolError} `message_too_large`, `bad_frame`, and the errors of decoding a control message.
 */
export function readIncoming(
  data: Uint8Array | string,
  { options: { subprotocol }, limits, code }: Pick<Receiver, 'options' | 'limits' | 'code'>,
  isAgreed: boolean,
  isHandshake: boolean,
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
    const { decodeJsonEnvelope } = jsonEnvelopes(code.plain);
    return { type: 'control', message: decodeJsonEnvelope(data, code.forms, limits, maxControl) };
  }
  if (!isBinary) throw new ProtocolError('bad_frame', `${Subprotocol.JSON} carries text messages only`);
  switch (frameKind(data)) {
    case FrameKind.CONTROL:
      return { type: 'control', message: decodeEnvelope(data, code.forms, limits.maxJsonDepth, maxControl) };
    case FrameKind.LINK:
      throw new ProtocolError('bad_frame', 'a link frame although link was not negotiated');
    default:
      return { type: 'bare', content: data };
  }
}

function assertSize(size: number, max: number): void {
  if (size <= max) return;
  throw new ProtocolError('message_too_large', `a message of ${size} bytes; at most ${max} are accepted`);
}

/** The cost of a held frame beside its bytes, so that empty frames are bounded as well. */
const FRAME_OVERHEAD = 64;

/**
 * Frames that arrive while the codecs that decode them are still being loaded: link frames, bare ones and CLOSE,
 * in their order. None of them is counted, so none is acknowledged before it is released.
 */
export class HeldFrames {
  readonly #frames: (Uint8Array | string)[] = [];
  #bytes = 0;
  readonly #window: number;
  readonly #maxBytes: number;

  /** Holds at most what credit would allow: a session window and one message. */
  constructor({ sessionWindow, maxMessageSize }: Limits) {
    this.#window = sessionWindow;
    this.#maxBytes = sessionWindow + maxMessageSize;
  }

  /** The driver should stop reading from the connection. */
  get isFull(): boolean {
    return this.#bytes > this.#window;
  }

  /** @throws {ProtocolError} `window_exceeded`. */
  add(frame: Uint8Array | string): void {
    this.#bytes += frame.length + FRAME_OVERHEAD;
    if (this.#bytes > this.#maxBytes) {
      throw new ProtocolError(
        'window_exceeded',
        `more than ${this.#maxBytes} bytes before the codecs were loaded`,
      );
    }
    this.#frames.push(frame);
  }

  /** Returns the frames and holds them no longer. */
  release(): (Uint8Array | string)[] {
    this.#bytes = 0;
    return this.#frames.splice(0);
  }
}
