import type { Logger } from '@parlance/protocol';
import { loggable, systemClock } from '@parlance/protocol/internal';
import type { KnownNode } from '../membership.js';
import { MoveChannel, type MoveDialing } from './move-channel.js';

/**
 * Connections to one node, each with one session at a time. A client waits while its session moves, so few of them move
 * together.
 */
const MAX_CHANNELS = 12;
/** Until a node that could not be reached is tried again, in milliseconds; doubled each time. */
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 3_200;

interface Way {
  readonly idle: MoveChannel[];
  opening: number;
  /** They carry a session. */
  busy: number;
  backoffMs: number;
  /** A clock reading. */
  next: number;
}

export interface MoveChannelsHost {
  readonly logger: Logger;
  dialing(target: KnownNode): MoveDialing;
  /** Another session may go. */
  onRoom(): void;
}

/**
 * The connections on which this node hands sessions over to others. They are opened before a session needs them, so that its
 * client does not wait for that, and carry one session after the other.
 */
export class MoveChannels {
  readonly #host: MoveChannelsHost;
  /** By the incarnation of the other node. */
  readonly #ways = new Map<string, Way>();
  #isClosed = false;

  constructor(host: MoveChannelsHost) {
    this.#host = host;
  }

  /** Opens connections, so that as many sessions can go at once. */
  prepare(target: KnownNode, sessions: number): void {
    const way = this.#wayTo(target);
    if (this.#isClosed || way.next > systemClock.now()) return;
    const wanted = Math.min(sessions, MAX_CHANNELS - way.busy);
    while (way.idle.length + way.opening < wanted) void this.#open(target, way);
  }

  /** Whether a connection waits for a session. */
  isReady(target: KnownNode): boolean {
    const { idle } = this.#wayTo(target);
    for (let channel = idle.at(-1); channel !== undefined; channel = idle.at(-1)) {
      if (channel.isIdle) return true;
      idle.pop();
      channel.close();
    }
    return false;
  }

  /** A connection for one session; `undefined` if none waits. Give it back. */
  take(target: KnownNode): MoveChannel | undefined {
    if (!this.isReady(target)) return undefined;
    const way = this.#wayTo(target);
    way.busy++;
    return way.idle.pop();
  }

  /** @param isFree whether the other node takes another session on this connection. */
  giveBack(target: KnownNode, channel: MoveChannel, isFree: boolean): void {
    const way = this.#wayTo(target);
    way.busy--;
    if (isFree && channel.isIdle && !this.#isClosed) way.idle.push(channel);
    else channel.close();
  }

  close(): void {
    this.#isClosed = true;
    for (const way of this.#ways.values()) for (const channel of way.idle.splice(0)) channel.close();
  }

  #wayTo({ incarnation }: KnownNode): Way {
    let way = this.#ways.get(incarnation);
    if (way === undefined) {
      way = { idle: [], opening: 0, busy: 0, backoffMs: MIN_BACKOFF_MS, next: 0 };
      this.#ways.set(incarnation, way);
    }
    return way;
  }

  /** Never rejects. */
  async #open(target: KnownNode, way: Way): Promise<void> {
    way.opening++;
    try {
      const channel = await MoveChannel.open(this.#host.dialing(target));
      if (this.#isClosed) return channel.close();
      way.backoffMs = MIN_BACKOFF_MS;
      way.idle.push(channel);
    } catch (error) {
      way.next = systemClock.now() + way.backoffMs;
      way.backoffMs = Math.min(2 * way.backoffMs, MAX_BACKOFF_MS);
      const fields = { event: 'move.failed', node: target.incarnation, err: loggable(error) };
      this.#host.logger.info(fields, 'a node to which sessions are to move cannot be reached yet');
    } finally {
      way.opening--;
    }
    this.#host.onRoom();
  }
}
