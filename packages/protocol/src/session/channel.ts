import { Extension } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { agreeOnContext, type ContextParameters } from '../codec/context/parameters.js';
import { linkParameters, type Negotiated } from '../control/agreement.js';
import type { GoAwayPayload } from '../control/messages.js';
import {
  type BodyToSend,
  Link,
  type LinkEvent,
  type LinkOptions,
  type OutgoingTransfer,
} from '../link/link.js';
import type { Outbox } from '../link/outbox.js';
import type { RateLimiter } from '../link/rates.js';
import type { RestedLink } from '../link/rest.js';
import type { LastStreams } from '../link/streams.js';
import type { Channel } from './body-channel.js';
import { addressingOf, BodyRules, peerLink } from './body-rules.js';
import type { ChannelOptions } from './channel-options.js';
import { assertNotDraining, assertOpen, type ChannelHost, type SessionChannel } from './closed-channel.js';

/** Messages, requests and streams over the link. */
export class LinkChannel implements SessionChannel {
  draining: GoAwayPayload | undefined;
  protected readonly session: ChannelHost;
  protected readonly outbox: Outbox;
  readonly #agreed: Agreed;
  readonly #gate: RateLimiter | undefined;
  readonly #streams: LinkOptions['streams'];
  /** The streams that the first link begins with. */
  readonly #last: LastStreams | undefined;
  #link: Link | undefined;
  /** The rest of the last link. */
  #rested: RestedLink | undefined;

  constructor(session: ChannelHost, options: ChannelOptions) {
    this.session = session;
    this.outbox = options.outbox;
    this.#agreed = agreedOf(options);
    this.#gate = options.limiter;
    this.#streams = options.streams;
    this.#last = options.last;
  }

  /** Made with the first frame, and with the first one after a rest: most sessions are idle. */
  protected get link(): Link {
    return this.#link ?? this.#begin();
  }
  protected set link(link: Link) {
    this.#link = link;
  }

  #begin(): Link {
    const { outbox } = this;
    const rested = this.#rested;
    const link = new Link({
      ...this.#agreed.link,
      outbox,
      gate: this.#gate,
      streams: this.#streams,
      last: rested?.last ?? this.#last,
    });
    this.#link = link;
    this.#rested = undefined;
    rested?.wake(link);
    return link;
  }

  protected get rules(): BodyRules {
    return this.#agreed.rules;
  }

  /** There is a link, which may have something to do. */
  get isAwake(): boolean {
    return this.#link !== undefined;
  }

  /**
   * Server: lets go of the link, if nothing is under way. Returns whether there is none.
   *
   * @param restedOf what is left of a link.
   */
  rest(restedOf: (link: Link) => RestedLink | undefined): boolean {
    if (this.#link === undefined) return true;
    this.#rested = restedOf(this.#link);
    if (this.#rested !== undefined) this.#link = undefined;
    return !this.isAwake;
  }

  get hasLink(): boolean {
    return true;
  }
  get openStreams(): number {
    return this.#link?.openStreams ?? 0;
  }
  get freeStreams(): number {
    return this.link.freeStreams;
  }
  get maxStreams(): number {
    return this.link.maxStreams;
  }
  get contextUse(): Channel['contextUse'] {
    return this.#agreed.link.context && this.link.contextUse;
  }
  get packedBytes(): number {
    return (this.#link ?? this.#rested)?.packedBytes ?? 0;
  }
  get framesConfirmed(): number {
    return (this.#link ?? this.#rested)?.framesConfirmed ?? 0;
  }
  get framesUnconfirmed(): number {
    return this.#link?.framesUnconfirmed ?? 0;
  }
  get framesReceived(): number {
    return (this.#link?.acknowledgement ?? this.#rested)?.received ?? 0;
  }
  get sentBodies(): Channel['sentBodies'] {
    return this.outbox.sentBodies;
  }
  get unreadBytes(): number {
    return this.#link?.unreadBytes ?? 0;
  }
  get isFull(): boolean {
    return false;
  }

  // --- sending

  send(body: BodyToSend): void {
    assertOpen(this.session);
    this.rules.assertMessage(body);
    this.link.send(body);
  }

  request(body: BodyToSend): number {
    assertNotDraining(this.draining, this.session);
    assertOpen(this.session);
    this.rules.assertBody(body);
    return this.link.streams.request(body);
  }

  transfer(transfer: OutgoingTransfer): number {
    assertOpen(this.session);
    this.rules.assertTransfer(transfer);
    return this.link.streams.transfer(transfer);
  }

  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void {
    this.session.touch();
    this.outbox.feed(streamId, bytes, onWritten);
  }

  respond(streamId: number, body: BodyToSend): void {
    if (!this.session.isOpen || !this.isWanted(streamId)) {
      body.onDropped?.();
      return this.end(streamId);
    }
    this.session.touch();
    this.rules.assertBody(body);
    this.link.streams.respond(streamId, body);
  }

  chunk(streamId: number, body: BodyToSend): void {
    this.session.touch();
    if (!this.session.isOpen || !this.isWanted(streamId)) return body.onDropped?.();
    this.rules.assertBody(body);
    this.link.streams.chunk(streamId, body);
  }

  end(streamId: number): void {
    this.session.touch();
    // A reply that closing has cut short must not look complete, and no counted frame may follow CLOSE.
    if (this.session.isOpen) this.link.streams.end(streamId);
  }

  fail(streamId: number, error: unknown): void {
    this.session.touch();
    if (this.session.isOpen) this.link.streams.fail(streamId, error);
  }

  // A closing session still refuses and cancels, so that the peer sends less before CLOSE.

  refuse(streamId: number, error: ProtocolError): void {
    this.session.touch();
    if (!this.session.hasEnded && !this.session.hasSentClose) this.link.streams.refuse(streamId, error);
  }

  cancel(streamId: number): void {
    if (this.session.hasEnded || this.session.hasSentClose) return;
    const wasUnwritten = this.link.streams.cancel(streamId);
    if (wasUnwritten) this.session.emit({ type: 'end', streamId });
  }

  isWanted(streamId: number): boolean {
    return !this.session.hasEnded && this.#link?.isWanted(streamId) === true;
  }

  runToCompletion(_streamId: number): void {}

  queuedOn(streamId: number): number {
    return this.outbox.queuedOn(streamId);
  }

  withdraw(onDropped: () => void): boolean {
    return this.outbox.withdraw(onDropped);
  }

  memoryOf(streamId: number): number {
    return this.outbox.memoryOf(streamId);
  }

  // --- receiving

  consume(streamId: number, charge: number): boolean {
    return charge > 0 && !this.session.hasEnded && this.link.consume(streamId, charge);
  }

  holdCredit(isHeld: boolean): void {
    this.link.isCreditHeld = isHeld;
  }

  handleLinkFrame(frame: Uint8Array, now: number): LinkEvent | undefined {
    this.rules.assertFrame(frame);
    const event = this.link.handleFrame(frame, now);
    if (event === undefined || !('body' in event)) return event;
    const body = this.rules.open(event.body);
    return body === event.body ? event : { ...event, body };
  }

  handlePlain(): never {
    throw new ProtocolError('bad_frame', 'a bare data frame although link was negotiated');
  }

  handleTimeout(now: number): void {
    this.#link?.handleTimeout(now);
  }

  nextTimeout(): number {
    return this.#link?.nextTimeout() ?? Infinity;
  }

  acknowledge(): void {
    this.link.acknowledgement.send();
  }

  stopSending(): void {
    this.link.stopSending();
  }

  confirmResumed(received: number): void {
    this.link.confirmResumed(received);
  }

  resume(received: number): void {
    this.link.resume(received);
  }
}

/** Values that follow from an agreement alone, which many sessions of a server share. */
interface Agreed {
  readonly rules: BodyRules;
  readonly link: Omit<LinkOptions, 'outbox' | 'gate' | 'streams' | 'last'>;
}

const agreed = new WeakMap<Negotiated, Agreed>();

function agreedOf(options: ChannelOptions): Agreed {
  const { role, limits, negotiated, ownExtensions, peerExtensions } = options;
  const known = agreed.get(negotiated);
  // Two ends within one process may share an agreement too.
  if (known?.link.side === role) return known;
  const own = linkParameters(ownExtensions);
  const hasContext = negotiated.extensions[Extension.CONTEXT] !== undefined;
  const link: Agreed['link'] = {
    side: role,
    limits,
    own: { ...own, maxStreams: Math.min(own.maxStreams, limits.maxStreams) },
    peer: peerLink(options),
    context: hasContext ? contextOf(ownExtensions, peerExtensions) : undefined,
    addressing: addressingOf(negotiated),
  };
  const found = { rules: new BodyRules(options), link };
  agreed.set(negotiated, found);
  return found;
}

/** The options of the link of a channel. */
export function linkOptionsOf(options: ChannelOptions): LinkOptions {
  const { outbox, limiter, streams, last } = options;
  return { ...agreedOf(options).link, outbox, gate: limiter, streams, last };
}

/** How much both ends keep of earlier messages. */
function contextOf(own: StringMap, peer: StringMap): ContextParameters {
  return agreeOnContext(own[Extension.CONTEXT] ?? '', peer[Extension.CONTEXT] ?? '');
}
