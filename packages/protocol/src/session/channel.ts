import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { algorithmOf } from '../codec/algorithms.js';
import type { CodedBody, SecurityStatus } from '../codec/body.js';
import { agreeOnContext, type ContextParameters } from '../codec/context/parameters.js';
import { linkParameters, type Negotiated } from '../control/agreement.js';
import type { DataPayload, GoAwayPayload } from '../control/messages.js';
import { type BodyToSend, Link, type LinkEvent, type OutgoingTransfer } from '../link/link.js';
import type { Outbox } from '../link/outbox.js';
import type { RateLimiter } from '../link/rates.js';
import { decodeBareFrame, decodeTextForm, encodeBareFrame, encodeTextForm } from './bare.js';
import { BodyRules, type BodyRulesOptions, peerLink } from './body-rules.js';
import {
  assertNotDraining,
  assertOpen,
  type ChannelHost,
  ClosedChannel,
  type SessionChannel,
} from './closed-channel.js';
import type { Channel } from './types.js';

export interface ChannelOptions extends BodyRulesOptions {
  /** The extensions that this end stated. */
  readonly ownExtensions: StringMap;
  readonly outbox: Outbox;
  /** Server: enforces the rates that it announced. */
  readonly limiter?: RateLimiter | undefined;
  /** Writes DATA envelopes; `undefined` in `m2m.v1`, which has bare frames instead. */
  readonly envelopes: { sendData(payload: DataPayload, body: CodedBody): void } | undefined;
}

/** The channel of a session that was agreed on: over the link if that was negotiated, else bare frames. */
export function createChannel(session: ChannelHost, options: ChannelOptions): SessionChannel {
  return options.negotiated.extensions[Extension.LINK] === undefined
    ? new BareChannel(session, options)
    : new LinkChannel(session, options);
}

/** Messages without a link: bare frames, or DATA envelopes in `m2m.v1.json`. There are no streams. */
class BareChannel extends ClosedChannel {
  readonly #rules: BodyRules;
  readonly #outbox: Outbox;
  readonly #negotiated: Negotiated;
  readonly #limits: ChannelOptions['limits'];
  readonly #limiter: RateLimiter | undefined;
  readonly #envelopes: ChannelOptions['envelopes'];
  /** Costs of messages that the application has not consumed. */
  #unread = 0;

  constructor(session: ChannelHost, options: ChannelOptions) {
    super(session);
    this.#rules = new BodyRules(options);
    this.#outbox = options.outbox;
    this.#negotiated = options.negotiated;
    this.#limits = options.limits;
    this.#limiter = options.limiter;
    this.#envelopes = options.envelopes;
  }

  override get sentBodies(): Channel['sentBodies'] {
    return this.#outbox.sentBodies;
  }
  override get unreadBytes(): number {
    return this.#unread;
  }
  override get isFull(): boolean {
    return this.#unread > this.#limits.sessionWindow;
  }

  /** @throws {ProtocolError} also `unrepresentable` for plain content without an unambiguous text form. */
  override send(body: BodyToSend): void {
    assertOpen(this.session);
    this.#rules.assertMessage(body);
    const { encoding } = this.#negotiated;
    if (this.#envelopes === undefined) {
      this.#outbox.pushBare(encodeBareFrame(body, encoding), body);
      return;
    }
    const algorithm = algorithmOf(body.codec);
    if (algorithm === undefined) {
      throw new ProtocolError('unsupported', `${Subprotocol.JSON} carries text only, no tensors`);
    }
    const content = encodeTextForm(body, encoding);
    const { originalLength: originalSize, securityStatus } = body;
    this.#envelopes.sendData({ algorithm, content, originalSize, securityStatus }, body);
  }

  override request(body: BodyToSend): number {
    assertNotDraining(this.draining);
    assertOpen(this.session);
    this.#rules.assertBody(body);
    throw noLink();
  }

  override transfer(transfer: OutgoingTransfer): number {
    assertOpen(this.session);
    this.#rules.assertTransfer(transfer);
    throw noLink();
  }

  /** Never grants credit, as there is none. */
  override consume(_streamId: number, charge: number): boolean {
    if (charge > 0 && !this.session.hasEnded) this.#unread -= charge;
    return false;
  }

  override queuedOn(streamId: number): number {
    return this.#outbox.queuedOn(streamId);
  }

  override withdraw(onDropped: () => void): boolean {
    return this.#outbox.withdraw(onDropped);
  }

  override memoryOf(streamId: number): number {
    return this.#outbox.memoryOf(streamId);
  }

  override handleBare(data: Uint8Array | string, now: number, securityStatus?: SecurityStatus): LinkEvent {
    const { encoding } = this.#negotiated;
    this.#limiter?.handleMessage(now);
    this.#rules.assertBare(data);
    const bare = typeof data === 'string' ? decodeTextForm(data, encoding) : decodeBareFrame(data, encoding);
    const body = this.#rules.open(securityStatus === undefined ? bare : { ...bare, securityStatus });
    this.#unread += body.charge;
    const { sessionWindow, maxMessageSize } = this.#limits;
    if (this.#unread > sessionWindow + maxMessageSize) {
      throw new ProtocolError('window_exceeded', `${this.#unread} bytes of messages wait to be read`);
    }
    return { type: 'message', body };
  }
}

/** Messages, requests and streams over the link. */
class LinkChannel implements SessionChannel {
  draining: GoAwayPayload | undefined;
  readonly #session: ChannelHost;
  readonly #rules: BodyRules;
  readonly #outbox: Outbox;
  readonly #link: Link;

  constructor(session: ChannelHost, options: ChannelOptions) {
    const { role, limits, negotiated, ownExtensions, peerExtensions, outbox, limiter } = options;
    this.#session = session;
    this.#rules = new BodyRules(options);
    this.#outbox = outbox;
    const own = linkParameters(ownExtensions);
    const hasContext = negotiated.extensions[Extension.CONTEXT] !== undefined;
    this.#link = new Link({
      side: role,
      limits,
      own: { ...own, maxStreams: Math.min(own.maxStreams, limits.maxStreams) },
      peer: peerLink(options),
      outbox,
      gate: limiter,
      context: hasContext ? contextOf(ownExtensions, peerExtensions) : undefined,
      addressing: negotiated.extensions[Extension.AGENTS] !== undefined,
    });
  }

  get hasLink(): boolean {
    return true;
  }
  get openStreams(): number {
    return this.#link.openStreams;
  }
  get contextUse(): Channel['contextUse'] {
    return this.#link.contextUse;
  }
  get framesConfirmed(): number {
    return this.#link.framesConfirmed;
  }
  get framesUnconfirmed(): number {
    return this.#link.framesUnconfirmed;
  }
  get framesReceived(): number {
    return this.#link.framesReceived;
  }
  get sentBodies(): Channel['sentBodies'] {
    return this.#outbox.sentBodies;
  }
  get unreadBytes(): number {
    return this.#link.unreadBytes;
  }
  get isFull(): boolean {
    return false;
  }

  // --- sending

  send(body: BodyToSend): void {
    assertOpen(this.#session);
    this.#rules.assertMessage(body);
    this.#link.send(body);
  }

  request(body: BodyToSend): number {
    assertNotDraining(this.draining);
    assertOpen(this.#session);
    this.#rules.assertBody(body);
    return this.#link.request(body);
  }

  transfer(transfer: OutgoingTransfer): number {
    assertOpen(this.#session);
    this.#rules.assertTransfer(transfer);
    return this.#link.transfer(transfer);
  }

  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void {
    this.#session.touch();
    this.#link.feed(streamId, bytes, onWritten);
  }

  respond(streamId: number, body: BodyToSend): void {
    if (!this.#session.isOpen || !this.isWanted(streamId)) return this.end(streamId);
    this.#session.touch();
    this.#rules.assertBody(body);
    this.#link.respond(streamId, body);
  }

  chunk(streamId: number, body: BodyToSend): void {
    this.#session.touch();
    if (!this.#session.isOpen || !this.isWanted(streamId)) return;
    this.#rules.assertBody(body);
    this.#link.chunk(streamId, body);
  }

  end(streamId: number): void {
    this.#session.touch();
    // A reply that closing has cut short must not look complete, and no counted frame may follow CLOSE.
    if (this.#session.isOpen) this.#link.end(streamId);
  }

  fail(streamId: number, error: unknown): void {
    this.#session.touch();
    if (this.#session.isOpen) this.#link.fail(streamId, error);
  }

  // A closing session still refuses and cancels, so that the peer sends less before CLOSE.

  refuse(streamId: number, error: ProtocolError): void {
    this.#session.touch();
    if (!this.#session.hasEnded && !this.#session.hasSentClose) this.#link.refuse(streamId, error);
  }

  cancel(streamId: number): void {
    if (this.#session.hasEnded || this.#session.hasSentClose) return;
    const wasUnwritten = this.#link.cancel(streamId);
    if (wasUnwritten) this.#session.emit({ type: 'end', streamId });
  }

  isWanted(streamId: number): boolean {
    return !this.#session.hasEnded && this.#link.isWanted(streamId);
  }

  queuedOn(streamId: number): number {
    return this.#outbox.queuedOn(streamId);
  }

  withdraw(onDropped: () => void): boolean {
    return this.#outbox.withdraw(onDropped);
  }

  memoryOf(streamId: number): number {
    return this.#outbox.memoryOf(streamId);
  }

  // --- receiving

  consume(streamId: number, charge: number): boolean {
    return charge > 0 && !this.#session.hasEnded && this.#link.consume(streamId, charge);
  }

  holdCredit(isHeld: boolean): void {
    this.#link.isCreditHeld = isHeld;
  }

  handleLinkFrame(frame: Uint8Array, now: number): LinkEvent | undefined {
    this.#rules.assertFrame(frame);
    const event = this.#link.handleFrame(frame, now);
    if (event === undefined || !('body' in event)) return event;
    const body = this.#rules.open(event.body);
    return body === event.body ? event : { ...event, body };
  }

  handleBare(): never {
    throw new ProtocolError('bad_frame', 'a bare data frame although link was negotiated');
  }

  handleTimeout(now: number): void {
    this.#link.handleTimeout(now);
  }

  nextTimeout(): number {
    return this.#link.nextTimeout();
  }

  acknowledge(): void {
    this.#link.acknowledge();
  }

  stopSending(): void {
    this.#link.stopSending();
  }

  confirmResumed(received: number): void {
    this.#link.confirmResumed(received);
  }

  resume(received: number): void {
    this.#link.resume(received);
  }
}

/** What both ends keep of earlier messages. */
function contextOf(own: StringMap, peer: StringMap): ContextParameters {
  return agreeOnContext(own[Extension.CONTEXT] ?? '', peer[Extension.CONTEXT] ?? '');
}

function noLink(): ProtocolError {
  return new ProtocolError(
    'unsupported',
    'requests, streams and tensors need the extension "link", which was not negotiated',
  );
}
