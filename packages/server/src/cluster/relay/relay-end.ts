import { ProtocolError } from '@parlance/protocol';
import type { WireEvents } from '../../http/ws.js';
import type { RelayMessage } from './relay-message.js';
import { type NodesMemory, RELAY_QUOTA, RelayQuota } from './relay-quota.js';
import { type RelayTraffic, RelayWire } from './relay-wire.js';

export interface RelayEndOptions {
  readonly traffic: RelayTraffic;
  /** The memory of what other nodes have under way. @default only the connection has bounds */
  readonly memory?: NodesMemory | undefined;
}

/** One end of a connection on which two nodes relay. */
export abstract class RelayEnd implements WireEvents {
  protected readonly wire: RelayWire;
  /** What has come from the other node and is not written. */
  protected readonly quota: RelayQuota;
  #isOver = false;

  constructor({ traffic, memory }: RelayEndOptions) {
    this.wire = new RelayWire(traffic);
    this.quota = new RelayQuota(RELAY_QUOTA, memory);
  }

  /** @param why `undefined` if this node ends the connection. */
  end(why?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.finish(why);
    this.quota.close();
  }

  /** Ends the wire, and tells others. Called once. */
  protected abstract finish(why: unknown): void;
  /** @throws {ProtocolError} `bad_message` and other codes, which end the connection. */
  protected abstract handle(message: RelayMessage): void;

  // --- as the listener of the wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    try {
      this.handle(this.wire.read(data));
    } catch (error) {
      this.end(error);
    }
  }
  onClose(code: number, reason: string): void {
    this.end(new ProtocolError('connection_failed', `closed with ${code} ${reason}`));
  }
  onFault(error: unknown): void {
    this.end(error);
  }
  onDrain(): void {}
  onControl(): void {}
  onData(): void {}
}
