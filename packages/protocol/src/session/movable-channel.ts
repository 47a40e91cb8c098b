import { type Fields, objectField } from '../base/fields.js';
import type { Limits } from '../base/limits.js';
import { canSnapshotLink, linkFields, restoreLink } from '../link/snapshot.js';
import { ServerChannel } from './server-channel.js';
import type { ServerSessionCore } from './types.js';

/** Server: the channel of a session that can move to another process. Pages do not load it. */
export class MovableChannel extends ServerChannel {
  get canSnapshot(): boolean {
    return !this.isAwake || canSnapshotLink(this.link);
  }

  snapshot(now: number): Fields {
    return { link: linkFields(this.link, now) };
  }

  /** See `ServerSessionCore.stalled`. */
  get stalled(): ServerSessionCore['stalled'] {
    const { outbox, sendCredit } = this.link.parts;
    const queue = outbox.parts.queues.find(({ streamId, blocked }) => streamId === 0 && blocked);
    if (queue === undefined) return undefined;
    const granted = sendCredit.snapshot()?.get(0)?.limit ?? 0;
    return { granted, messages: queue.size, bytes: queue.queuedBytes };
  }

  /**
   * @param fields what {@link snapshot} has returned.
   * @param limits for what is received.
   * @throws {ProtocolError} as `restoreLink`.
   */
  restore(fields: Fields, limits: Limits, now: number): void {
    restoreLink(this.link, objectField(fields, 'link'), limits, now);
    // Whether credit was held for want of memory is a matter of the process before.
    this.holdCredit(false);
  }
}
