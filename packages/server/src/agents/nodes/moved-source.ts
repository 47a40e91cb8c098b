import type { Undelivered } from '@parlance/protocol';
import type { RelayChannel } from '../target.js';
import type { MovedSession, OutgoingRelay } from './outgoing.js';
import { type RemoteAgent, type RemoteHost, RemoteSession, UNUSED } from './remote-session.js';

/** Stands for a session that has moved to another node, while the fate of messages that it sent from here is not known. */
export class MovedSource extends RemoteSession implements MovedSession {
  readonly #link: OutgoingRelay;

  constructor(agent: RemoteAgent, host: RemoteHost, link: OutgoingRelay) {
    super(agent, host);
    this.#link = link;
  }

  protected createChannel(): RelayChannel {
    return { ...UNUSED, consume: () => false };
  }

  readonly passReport = (report: Undelivered): void => this.#link.report(this, report);

  settle(): void {
    this.state = 'closed';
    this.#link.settle(this);
  }

  /** The node of the session reports by itself what is not known. */
  handleLost(): void {
    this.state = 'closed';
  }
}
