import type { ServerWire } from '../http/ws.js';
import {
  decodeRelayMessage,
  encodeRelayMessage,
  type RelayMessage,
  type RelayMessageType,
} from './relay-message.js';

/** Ticks of a second without a word, after which the other node counts as gone: more than a lease, so that a pause is none. */
export const MAX_SILENT_TICKS = 6;

/** Totals of all connections of a node on which it relays, as they are and as they were. */
export class RelayTraffic {
  messagesSent = 0;
  messagesReceived = 0;
  bytesSent = 0;
  bytesReceived = 0;
}

/** One connection between two nodes, at either end. */
export class RelayWire {
  readonly #traffic: RelayTraffic;
  #wire: Pick<ServerWire, 'send' | 'terminate'> | undefined;
  /** Waits for the connection. The windows of its senders bound it. */
  #waiting: Uint8Array[] = [];
  #hasSent = false;
  #silentTicks = 0;
  #isOver = false;

  constructor(traffic: RelayTraffic) {
    this.#traffic = traffic;
  }

  get isOpen(): boolean {
    return this.#wire !== undefined;
  }

  open(wire: Pick<ServerWire, 'send' | 'terminate'>): void {
    if (this.#isOver) return wire.terminate();
    this.#wire = wire;
    for (const message of this.#waiting.splice(0)) this.#write(message);
  }

  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    if (this.#isOver) return;
    const message = encodeRelayMessage(type, fields, ...parts);
    if (this.#wire === undefined) this.#waiting.push(message);
    else this.#write(message);
  }

  #write(message: Uint8Array): void {
    this.#hasSent = true;
    this.#traffic.messagesSent++;
    this.#traffic.bytesSent += message.length;
    this.#wire?.send(message);
  }

  /** @throws {ProtocolError} `bad_message`. */
  read(data: Uint8Array | string): RelayMessage {
    this.#silentTicks = 0;
    this.#traffic.messagesReceived++;
    this.#traffic.bytesReceived += data.length;
    return decodeRelayMessage(data);
  }

  /** Says that this node is there. Returns whether the other one may be. */
  handleTick(): boolean {
    if (this.#wire === undefined) return true;
    if (!this.#hasSent) this.send('ping', []);
    this.#hasSent = false;
    return this.#silentTicks++ < MAX_SILENT_TICKS;
  }

  end(): void {
    this.#isOver = true;
    this.#waiting = [];
    this.#wire?.terminate();
  }
}
