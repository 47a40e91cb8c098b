import { Extension, Prefix, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import type { Limits } from '../base/limits.js';
import { algorithmOf } from '../codec/algorithms.js';
import { BodyCodec, type CodedBody, type ReceivedBody, type SecurityStatus } from '../codec/body.js';
import { agreeOnContext, type ContextParameters } from '../codec/context/parameters.js';
import { isM2M as isM2MFrame, openM2MBody } from '../codec/m2m/m2m.js';
import type { M2MSecurity } from '../codec/m2m/security.js';
import { type LinkParameters, linkParameters, type Negotiated } from '../control/agreement.js';
import type { DataPayload } from '../control/messages.js';
import { decodeLinkFrame, isBodyKind } from '../link/frame.js';
import { type BodyToSend, Link, type LinkEvent, type OutgoingTransfer } from '../link/link.js';
import type { Outbox } from '../link/outbox.js';
import type { RateLimiter } from '../link/rates.js';
import { decodeBareFrame, decodeTextForm, encodeBareFrame, encodeTextForm } from './bare.js';

export interface DataPathOptions {
  readonly role: 'client' | 'server';
  /** Bounds of what is received. */
  readonly limits: Limits;
  readonly negotiated: Negotiated;
  /** What either end states about its link and its context. */
  readonly ownExtensions: StringMap;
  readonly peerExtensions: StringMap;
  readonly outbox: Outbox;
  /** What the peer may send per time. */
  readonly gate?: RateLimiter | undefined;
  /** Protection that every body has to have, in either direction. */
  readonly security?: M2MSecurity | undefined;
  /** Writes a DATA envelope, where data travel in such: in `m2m.v1.json`. */
  readonly sendData: ((payload: DataPayload, body: CodedBody) => void) | undefined;
}

/** Only a client is told limits to respect; a server respects its own. */
function statedTo(role: 'client' | 'server', { limits }: Negotiated): Negotiated['limits'] {
  return role === 'client' ? limits : {};
}

/** Bytes of a message that the peer takes, coded or not. */
export function maxMessageSize(role: 'client' | 'server', negotiated: Negotiated, limits: Limits): number {
  return Math.min(
    negotiated.maxPayloadSize || Infinity,
    statedTo(role, negotiated)['maxMessageSize'] ?? Infinity,
    limits.maxMessageSize,
  );
}

/**
 * Bodies in and out of an established session: over the link where it was negotiated, else as bare
 * frames or JSON envelopes. What is sent is held against what the peer takes, what arrives against
 * what was agreed.
 */
export class DataPath {
  /** `undefined` where the link was not negotiated. */
  readonly link: Link | undefined;
  readonly #negotiated: Negotiated;
  readonly #sendData: DataPathOptions['sendData'] | undefined;
  readonly #outbox: Outbox;
  readonly #gate: RateLimiter | undefined;
  readonly #limits: Limits;
  readonly #security: M2MSecurity | undefined;
  /** Charges of bare messages that the application has not taken. */
  #unread = 0;
  readonly #isAddressing: boolean;
  /** The peer reads one-way messages and tensors that are for itself. */
  readonly #isRead: boolean;
  /** Bytes that the peer takes of a message, and of a tensor. */
  readonly #maxMessage: number;
  readonly #maxTransfer: number;

  constructor(options: DataPathOptions) {
    const { role, limits, negotiated, ownExtensions, peerExtensions, outbox, gate } = options;
    this.#negotiated = negotiated;
    this.#outbox = outbox;
    this.#sendData = options.sendData;
    this.#gate = gate;
    this.#limits = limits;
    this.#security = options.security;
    this.#isAddressing = negotiated.extensions[Extension.AGENTS] !== undefined;
    this.#maxMessage = maxMessageSize(role, negotiated, limits);
    const stated = statedTo(role, negotiated);
    const own = atMost(linkParameters(ownExtensions), limits.maxStreams);
    const peer = atMost(linkParameters(peerExtensions), stated['maxStreams']);
    this.#isRead = peer.takesMessages;
    this.#maxTransfer = Math.min(peer.maxTransfer, stated['maxTransferSize'] ?? limits.maxTransferSize);
    if (negotiated.extensions[Extension.LINK] === undefined) return;
    const hasContext = negotiated.extensions[Extension.CONTEXT] !== undefined;
    this.link = new Link({
      side: role,
      limits,
      own,
      peer,
      outbox,
      gate,
      context: hasContext ? contextOf(ownExtensions, peerExtensions) : undefined,
      addressing: this.#isAddressing,
    });
  }

  /** A link frame. @throws {ProtocolError} which ends the session. */
  handleLinkFrame(frame: Uint8Array, now: number): LinkEvent | undefined {
    if (this.#security !== undefined) assertFrameMayBeProtected(frame);
    const event = this.link?.handleFrame(frame, now);
    if (event === undefined || !('body' in event)) return event;
    this.#assertNegotiated(event.body);
    return this.#security === undefined
      ? event
      : { ...event, body: this.#opened(event.body, this.#security) };
  }

  /** A bare data frame, or the content of a text message or a DATA envelope. */
  handleBare(data: Uint8Array | string, now: number, securityStatus?: SecurityStatus): LinkEvent {
    if (this.link !== undefined)
      throw new ProtocolError('bad_frame', 'a bare data frame where link was negotiated');
    const { encoding } = this.#negotiated;
    this.#gate?.handleMessage(now);
    if (this.#security !== undefined) assertBareMayBeProtected(data);
    const bare = typeof data === 'string' ? decodeTextForm(data, encoding) : decodeBareFrame(data, encoding);
    const stated = securityStatus === undefined ? bare : { ...bare, securityStatus };
    this.#assertNegotiated(stated);
    const body = this.#security === undefined ? stated : this.#opened(stated, this.#security);
    this.#unread += body.charge;
    const { sessionWindow, maxMessageSize } = this.#limits;
    if (this.#unread > sessionWindow + maxMessageSize)
      throw new ProtocolError('window_exceeded', `${this.#unread} bytes of messages wait to be read`);
    return { type: 'message', body };
  }

  /** Charges of bodies that were received and that the application has not taken. */
  get unreadBytes(): number {
    return this.link?.unreadBytes ?? this.#unread;
  }

  /** No more bare messages should be read from the connection, as there is no credit to hold them back. */
  get isFull(): boolean {
    return this.#unread > this.#limits.sessionWindow;
  }

  /** The application has taken what a body was charged. Returns whether that gave the peer credit. */
  consume(streamId: number, charge: number): boolean {
    if (this.link !== undefined) return this.link.consume(streamId, charge);
    this.#unread -= charge;
    return false;
  }

  /** @throws {ProtocolError} `unrepresentable`, `unsupported`, `message_too_large`. */
  send(body: BodyToSend): void {
    this.#assertSendable(body);
    this.#assertRead(body.agent);
    if (this.link === undefined) this.#sendBare(body);
    else this.link.send(body);
  }

  /** The link, for a body that it can take. @throws {ProtocolError} `unsupported`, `message_too_large`. */
  linkFor(body: BodyToSend): Link {
    this.#assertSendable(body);
    return this.#assertLink();
  }

  #assertLink(): Link {
    if (this.link !== undefined) return this.link;
    throw new ProtocolError(
      'unsupported',
      'requests, streams and tensors need the link extension, which was not negotiated',
    );
  }

  /**
   * The link, for a tensor of `payloadSize` bytes.
   *
   * @throws {ProtocolError} `unsupported`, `transfer_too_large`.
   */
  linkForTransfer({ payloadSize, agent }: Pick<OutgoingTransfer, 'payloadSize' | 'agent'>): Link {
    this.#assertAddressable(agent);
    this.#assertRead(agent);
    if (this.#security !== undefined) {
      throw new ProtocolError(
        'unsupported',
        'nothing protects a tensor, so a session with the option "security" has none',
      );
    }
    if (payloadSize > this.#maxTransfer) {
      throw new ProtocolError(
        'transfer_too_large',
        `a tensor of ${payloadSize} bytes, the peer takes at most ${this.#maxTransfer}`,
      );
    }
    return this.#assertLink();
  }

  /**
   * A body whose protection holds. That is checked on arrival, and not when the body is read: a body that is not
   * authentic must not make a handler run, as the answer to it would be given the key's protection.
   *
   * @throws {ProtocolError} `security_required`, `authentication_failed`, and for a malformed header.
   */
  #opened(body: ReceivedBody, security: M2MSecurity): ReceivedBody {
    return { ...body, opened: openM2MBody(body.bytes, security) };
  }

  /** AVP is no negotiated algorithm, and nothing at all is not coded as anything. */
  #assertNegotiated({ codec, bytes }: ReceivedBody): void {
    if (codec === BodyCodec.PLAIN && bytes.length === 0) return;
    const algorithm = algorithmOf(codec);
    const { algorithms } = this.#negotiated;
    // Bodies in context get this far only where context was negotiated.
    const isNone = codec === BodyCodec.AVP || codec === BodyCodec.CONTEXT;
    if (algorithm === undefined ? isNone : algorithms.includes(algorithm)) return;
    throw new ProtocolError(
      'bad_frame',
      `a body coded as ${algorithm ?? `codec ${codec}`}, which was not negotiated`,
    );
  }

  #assertRead(agent: string | undefined): void {
    if (agent !== undefined || this.#isRead) return;
    throw new ProtocolError(
      'unsupported',
      'the peer reads no one-way messages and no tensors: a server without onSession answers requests only',
    );
  }

  #assertAddressable(agent: string | undefined): void {
    if (agent === undefined || this.#isAddressing) return;
    throw new ProtocolError(
      'unsupported',
      'messages to agents need the extension "agents", to which a server agrees that authenticates its clients',
    );
  }

  #assertSendable({ codec, originalLength, bytes, agent }: BodyToSend): void {
    this.#assertAddressable(agent);
    if (this.#security !== undefined && codec !== BodyCodec.M2M) throw unprotected();
    const size = Math.max(originalLength, bytes.length);
    if (size <= this.#maxMessage) return;
    throw new ProtocolError(
      'message_too_large',
      `${size} bytes are more than the ${this.#maxMessage} that the peer takes`,
    );
  }

  #sendBare(body: BodyToSend): void {
    const { encoding } = this.#negotiated;
    if (this.#sendData === undefined) {
      this.#outbox.pushBare(encodeBareFrame(body, encoding), body);
      return;
    }
    const algorithm = algorithmOf(body.codec);
    if (algorithm === undefined) {
      throw new ProtocolError('unsupported', `${Subprotocol.JSON} carries text only, no tensors`);
    }
    const content = encodeTextForm(body, encoding);
    const { originalLength: originalSize, securityStatus } = body;
    this.#sendData({ algorithm, content, originalSize, securityStatus }, body);
  }
}

/** Only M2M is protected; whether such a body is, is found out when it is whole. */
function assertFrameMayBeProtected(bytes: Uint8Array): void {
  const { kind, codec } = decodeLinkFrame(bytes);
  if (isBodyKind(kind) && codec !== BodyCodec.M2M) throw unprotected();
}

function assertBareMayBeProtected(data: Uint8Array | string): void {
  const isM2M = typeof data === 'string' ? data.startsWith(Prefix.M2M) : isM2MFrame(data);
  if (!isM2M) throw unprotected();
}

function unprotected(): ProtocolError {
  return new ProtocolError(
    'security_required',
    'a body that is no protected M2M frame; `security` demands that',
  );
}

/** What both ends keep of earlier messages. */
function contextOf(own: StringMap, peer: StringMap): ContextParameters {
  return agreeOnContext(own[Extension.CONTEXT] ?? '', peer[Extension.CONTEXT] ?? '');
}

function atMost(parameters: LinkParameters, maxStreams = Infinity): LinkParameters {
  return { ...parameters, maxStreams: Math.min(parameters.maxStreams, maxStreams) };
}
