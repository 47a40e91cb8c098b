import { Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { algorithmOf } from '../codec/algorithms.js';
import type { SecurityStatus } from '../codec/body.js';
import type { Negotiated } from '../control/agreement.js';
import type { BodyToSend, LinkEvent, OutgoingTransfer } from '../link/link.js';
import type { Outbox } from '../link/outbox.js';
import type { RateLimiter } from '../link/rates.js';
import type { Channel } from './body-channel.js';
import { BodyRules } from './body-rules.js';
import type { ChannelOptions } from './channel-options.js';
import { assertNotDraining, assertOpen, type ChannelHost, ClosedChannel } from './closed-channel.js';
import { decodePlainFrame, decodeTextForm, encodePlainFrame, encodeTextForm } from './plain.js';

/** Messages without a link: bare frames, or DATA envelopes in `m2m.v1.json`. There are no streams. */
export class PlainChannel extends ClosedChannel {
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
    const { encoding, isNested } = this.#negotiated;
    if (this.#envelopes === undefined) {
      this.#outbox.pushPlain(encodePlainFrame(body, encoding), body);
      return;
    }
    const algorithm = algorithmOf(body.codec);
    if (algorithm === undefined) {
      throw new ProtocolError('unsupported', `${Subprotocol.JSON} carries text only, no tensors`);
    }
    const content = encodeTextForm(body, encoding);
    const { originalLength: originalSize, securityStatus } = body;
    this.#envelopes.sendData({ algorithm, isNested, content, originalSize, securityStatus }, body);
  }

  override request(body: BodyToSend): number {
    assertNotDraining(this.draining, this.session);
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

  override handlePlain(data: Uint8Array | string, now: number, securityStatus?: SecurityStatus): LinkEvent {
    const { encoding } = this.#negotiated;
    this.#limiter?.handleMessage(now);
    this.#rules.assertPlain(data);
    const plain =
      typeof data === 'string' ? decodeTextForm(data, encoding) : decodePlainFrame(data, encoding);
    const body = this.#rules.open(securityStatus === undefined ? plain : { ...plain, securityStatus });
    this.#unread += body.charge;
    const { sessionWindow, maxMessageSize } = this.#limits;
    if (this.#unread > sessionWindow + maxMessageSize) {
      throw new ProtocolError('window_exceeded', `${this.#unread} bytes of messages wait to be read`);
    }
    return { type: 'message', body };
  }
}

function noLink(): ProtocolError {
  return new ProtocolError(
    'unsupported',
    'requests, streams and tensors need the extension "link", which was not negotiated',
  );
}
