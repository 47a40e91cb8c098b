import type { ServerWire } from '../../http/ws.js';
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

/** Bytes of answers that the other node has not read, beyond which nothing is read from it. */
const MAX_UNREAD = 1024 * 1024;
/** The same of all that waits to be written, beyond which the connection is ended. */
export const MAX_UNWRITTEN = 256 * 1024 * 1024;

/** What a connection of this node to itself has too. */
export type NodeWire = Pick<ServerWire, 'send' | 'terminate'> &
  Partial<Pick<ServerWire, 'bufferedAmount' | 'hold' | 'unhold'>>;

/** One connection between two nodes, at either end. */
export class RelayWire {
  readonly #traffic: RelayTraffic;
  #wire: NodeWire | undefined;
  #isHeld = false;
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

  /** Bytes that wait to be written. */
  get unwritten(): number {
    return this.#wire?.bufferedAmount ?? 0;
  }

  open(wire: NodeWire): void {
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

  /** Reads from the other node only while it reads what it is told. */
  pace(): void {
    const isFull = this.unwritten > MAX_UNREAD;
    if (this.#isOver || isFull === this.#isHeld) return;
    this.#isHeld = isFull;
    if (isFull) this.#wire?.hold?.();
    else this.#wire?.unhold?.();
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
