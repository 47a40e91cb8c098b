import { MAX_STREAM_ID } from '../base/constants.js';
import { type Fields, get } from '../base/fields.js';
import type { Limits } from '../base/limits.js';
import { ValueList } from '../base/value-list.js';
import type { RebuiltLink } from '../control/messages.js';
import { KeptMessages } from '../link/kept-messages.js';
import { linkOptionsOf } from './channel.js';
import type { ChannelOptions } from './channel-options.js';
import type { ChannelHost } from './closed-channel.js';
import { MovableChannel } from './movable-channel.js';
import { Rebuilding } from './rebuilding.js';

/** Server: the channel of a session whose link can be rebuilt. Pages do not load it. */
export class RebuildableChannel extends MovableChannel {
  protected override readonly rebuilding: Rebuilding;

  constructor(session: ChannelHost, options: ChannelOptions) {
    super(session, options);
    this.rebuilding = new Rebuilding(linkOptionsOf(options));
    this.outbox.keepMessages(new KeptMessages());
  }

  override snapshot(now: number): Fields {
    const { unread, handled } = this.rebuilding.snapshot();
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
    this.rebuilding.restore({ unread, handled });
  }

  canRebuild(received: number): boolean {
    return this.rebuilding.allows(this.link, received);
  }

  rebuild(received: number): RebuiltLink {
    const { link, events, answer } = this.rebuilding.replace(this.link, received);
    this.link = link;
    for (const event of events) this.session.emit(event);
    return answer;
  }
}
