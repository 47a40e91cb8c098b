import { MAX_STREAM_ID } from '../base/constants.js';
import type { ProtocolError } from '../base/errors.js';
import { type Fields, get } from '../base/fields.js';
import type { Limits } from '../base/limits.js';
import { ValueList } from '../base/value-list.js';
import type { RebuiltLink } from '../control/messages.js';
import { KeptMessages } from '../link/kept-messages.js';
import type { BodyToSend } from '../link/link.js';
import { linkOptionsOf } from './channel.js';
import type { ChannelOptions } from './channel-options.js';
import type { ChannelHost } from './closed-channel.js';
import { MovableChannel } from './movable-channel.js';
import { Rebuilding } from './rebuilding.js';

/** Server: the channel of a session whose link can be rebuilt. Pages do not load it. */
export class RebuildableChannel extends MovableChannel {
  readonly #host: ChannelHost;
  readonly #rebuilding: Rebuilding;

  constructor(session: ChannelHost, options: ChannelOptions) {
    super(session, options);
    this.#host = session;
    this.#rebuilding = new Rebuilding(linkOptionsOf(options));
    this.outbox.keepMessages(new KeptMessages());
  }

  override get unreadBytes(): number {
    return super.unreadBytes + this.#rebuilding.unread;
  }

  override snapshot(now: number): Fields {
    const { unread, handled } = this.#rebuilding.snapshot();
    const isEmpty = unread === 0 && (handled?.size ?? 0) === 0;
    return { ...super.snapshot(now), former: isEmpty ? undefined : [unread, ...(handled ?? [])] };
  }

  override restore(fields: Fields, limits: Limits, now: number): void {
    super.restore(fields, limits, now);
    const former = get(fields, 'former');
    if (former === undefined) return;
    const list = new ValueList(former, 'former links');
    const unread = list.count();
    const handled = new Set(list.rest((one) => one.count(MAX_STREAM_ID)));
    this.#rebuilding.restore({ unread, handled });
  }

  canRebuild(received: number): boolean {
    return this.#rebuilding.allows(this.link, received);
  }

  rebuild(received: number): RebuiltLink {
    const { link, events, answer } = this.#rebuilding.replace(this.link, received);
    this.link = link;
    for (const event of events) this.#host.emit(event);
    return answer;
  }

  override runToCompletion(streamId: number): void {
    const stream = this.link.parts.streams.answerable(streamId);
    if (stream !== undefined) stream.runsToCompletion = true;
  }

  override consume(streamId: number, charge: number): boolean {
    return super.consume(streamId, streamId === 0 ? this.#rebuilding.consume(charge) : charge);
  }

  override holdCredit(isHeld: boolean): void {
    this.#rebuilding.isCreditHeld = isHeld;
    super.holdCredit(isHeld);
  }

  // A request is answered; its stream may belong to a former link.

  override respond(streamId: number, body: BodyToSend): void {
    this.#rebuilding.handleAnswered(streamId);
    super.respond(streamId, body);
  }

  override end(streamId: number): void {
    this.#rebuilding.handleAnswered(streamId);
    super.end(streamId);
  }

  override fail(streamId: number, error: unknown): void {
    this.#rebuilding.handleAnswered(streamId);
    super.fail(streamId, error);
  }

  override refuse(streamId: number, error: ProtocolError): void {
    this.#rebuilding.handleAnswered(streamId);
    super.refuse(streamId, error);
  }
}
