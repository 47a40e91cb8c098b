import { StatsRecorder, type Traffic, type Wire } from '@parlance/protocol/internal';

const NO_TRAFFIC: Traffic = Object.freeze({ sent: 0, received: 0 });

/** Counts the bytes of all connections of a session as well, as they were on the socket. */
export class TrafficRecorder extends StatsRecorder {
  #wire: Wire | undefined;
  /** Of the connections before {@link #wire}, less what its messages were counted with before it. */
  #before = NO_TRAFFIC;

  override attach(wire: Wire | undefined): void {
    if (wire === this.#wire) return;
    const { sent, received } = this.traffic;
    this.#wire = wire;
    // A socket counts from its beginning, of which everything belongs to the session; messages count from now on.
    const counted = wire?.traffic === undefined ? this.#onWire : NO_TRAFFIC;
    this.#before = { sent: sent - counted.sent, received: received - counted.received };
  }

  /** Those of messages if the wire does not count. A connection counts until the session leaves it. */
  get traffic(): Traffic {
    const { sent, received } = this.#onWire;
    return { sent: this.#before.sent + sent, received: this.#before.received + received };
  }

  get #onWire(): Traffic {
    return this.#wire?.traffic ?? { sent: this.sentBytes, received: this.receivedBytes };
  }
}
