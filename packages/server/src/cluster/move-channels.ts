import type { KnownNode } from './membership.js';
import { MoveChannel, type MoveDialing } from './move-channel.js';

/** Connections to one node that wait for their next sessions. */
const MAX_IDLE = 16;

/** The connections on which this node hands sessions over: opening one for each session would take longer than the rest. */
export class MoveChannels {
  readonly #dialing: (target: KnownNode) => MoveDialing;
  /** By the incarnation of the other node. */
  readonly #idle = new Map<string, MoveChannel[]>();
  #isClosed = false;

  constructor(dialing: (target: KnownNode) => MoveDialing) {
    this.#dialing = dialing;
  }

  /** @throws {ProtocolError} as `MoveChannel.open`. */
  async open(target: KnownNode): Promise<MoveChannel> {
    const idle = this.#idle.get(target.incarnation);
    for (let channel = idle?.pop(); channel !== undefined; channel = idle?.pop()) {
      if (channel.isIdle) return channel;
      channel.close();
    }
    return await MoveChannel.open(this.#dialing(target));
  }

  /** The other node has taken a session, and would take another one on the same connection. */
  release({ incarnation }: KnownNode, channel: MoveChannel): void {
    let idle = this.#idle.get(incarnation);
    if (idle === undefined) {
      idle = [];
      this.#idle.set(incarnation, idle);
    }
    if (this.#isClosed || !channel.isIdle || idle.length >= MAX_IDLE) channel.close();
    else idle.push(channel);
  }

  close(): void {
    this.#isClosed = true;
    for (const idle of this.#idle.values()) for (const channel of idle) channel.close();
    this.#idle.clear();
  }
}
