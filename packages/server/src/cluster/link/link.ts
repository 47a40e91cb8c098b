import { CloseCode, ProtocolError } from '@parlance/protocol';
import { type Transport, type TransportEvents, terminateSoon } from '../../transport/transport.js';
import { decodeLinkMessage, encodeLinkMessage, type LinkMessage, malformed } from './message.js';
import { LINK_QUOTA, LinkQuota, type NodesMemory } from './quota.js';

/** Ticks of a second without a word, after which the other node counts as gone: more than a lease, so that a pause is none. */
export const MAX_SILENT_TICKS = 6;
/**
 * Ticks of a second within which the other node becomes a member: it may have joined just now, and was found in the
 * engine.
 */
export const MAX_UNKNOWN_TICKS = 6;
/** Bytes of answers that the other node has not read, beyond which nothing is read from it. */
const MAX_UNREAD = 1024 * 1024;
/** The same of all that waits to be written, beyond which the link is ended. */
const MAX_UNWRITTEN = 256 * 1024 * 1024;
/** Bytes of one piece of what is sent in pieces, and of all that waits to be written while the next one waits. */
const PIECE_SIZE = 64 * 1024;
const MAX_BUFFERED = 1024 * 1024;
/** In place of a service: the node is there. */
const PING = '';

/** Totals of all links of a node, as they are and as they were. */
export class Traffic {
  messagesSent = 0;
  messagesReceived = 0;
  bytesSent = 0;
  bytesReceived = 0;
}

/** The part of a transport that a connection of this node to itself has as well. */
export type NodeWire = Pick<Transport, 'send' | 'terminate'> &
  Partial<Pick<Transport, 'bufferedAmount' | 'close' | 'hold' | 'unhold'>>;

/** One end of a link, as a service handles it. */
export interface LinkEnd {
  /** @throws {ProtocolError} `bad_message` and other codes, which end the link. */
  handle(message: LinkMessage): void;
  /** This node ends the link. The service sends its last messages now. */
  handleEnding?(): void;
  /** The link is over. Called once. @param why `undefined` if this node has ended it. */
  handleOver(why: unknown): void;
}

export interface LinkOptions {
  /** The other node. */
  readonly node: string;
  readonly traffic: Traffic;
  /** The memory of what other nodes have under way. @default only the link has bounds */
  readonly memory?: NodesMemory | undefined;
  /** The end of a service that the other node has begun to use; `undefined` if this node has opened the link. */
  readonly accept?: ((service: string, link: Link) => LinkEnd | undefined) | undefined;
  /** Called before the ends of services are notified. */
  readonly onOver: (why: unknown) => void;
}

/** The other node has ended the link in order, as it closes: nothing is wrong. */
export const LEFT = new ProtocolError('connection_failed', 'the other node has ended the link');

/**
 * One end of a connection between two nodes, on which each service of theirs has its own messages. One node opens it and asks;
 * the other one answers, and reads nothing while its answers are not read.
 */
export class Link implements TransportEvents {
  readonly node: string;
  /** Counts messages that have come from the other node and are not written. */
  readonly quota: LinkQuota;
  readonly #options: LinkOptions;
  /** By service. */
  readonly #ends = new Map<string, LinkEnd>();
  #wire: NodeWire | undefined;
  #isHeld = false;
  /** Waits for the connection. The windows of its senders bound it. */
  #waiting: Uint8Array[] = [];
  /** Wait until less waits to be written. */
  #pieces: (() => void)[] = [];
  #hasSent = false;
  #silentTicks = 0;
  /** Ticks for which the other node was no member, as far as this one knows; infinite if it was one before. */
  #unknownTicks = 0;
  #isOver = false;
  #onClosed: (() => void) | undefined;

  constructor(options: LinkOptions) {
    this.node = options.node;
    this.#options = options;
    this.quota = new LinkQuota(LINK_QUOTA, options.memory);
  }

  /** It is open, or was until it was over: something may have been sent. */
  get isOpen(): boolean {
    return this.#wire !== undefined;
  }
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The connection is there. The caller makes the link its listener. */
  open(wire: NodeWire): void {
    if (this.#isOver) return wire.terminate();
    this.#wire = wire;
    for (const message of this.#waiting.splice(0)) this.#write(message);
  }

  /** A service uses the link from now on. */
  attach<End extends LinkEnd>(service: string, end: End): End {
    this.#ends.set(service, end);
    return end;
  }

  /** The end that was attached for a service. */
  endOf(service: string): LinkEnd | undefined {
    return this.#ends.get(service);
  }

  /** Sends what is bounded by windows, or answers of which there are few. */
  send(service: string, type: string, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    if (this.#isOver) return;
    const message = encodeLinkMessage(service, type, fields, ...parts);
    if (this.#wire === undefined) this.#waiting.push(message);
    else this.#write(message);
  }

  /** As {@link send}, for as many answers as the other node asks for: a link whose other end does not read them is ended. */
  answer(service: string, type: string, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    this.send(service, type, fields, ...parts);
    if (this.#unwritten > MAX_UNWRITTEN) this.end(new ProtocolError('over_budget', 'the node does not read'));
  }

  /**
   * Sends bytes in messages of one type, each when little else waits to be written. Never rejects.
   *
   * @param isWanted whether the rest is sent.
   */
  async sendPieces(
    service: string,
    type: string,
    number: number,
    bytes: Uint8Array,
    isWanted: () => boolean,
  ): Promise<void> {
    for (let at = 0; at < bytes.length; at += PIECE_SIZE) {
      while (!this.#isOver && this.#unwritten > MAX_BUFFERED)
        await new Promise<void>((resolve) => this.#pieces.push(resolve));
      if (this.#isOver || !isWanted()) return;
      this.send(service, type, [number], bytes.subarray(at, at + PIECE_SIZE));
    }
  }

  /** @param isMember whether the other node is a member, as far as this one knows. */
  handleTick(isMember: boolean): void {
    if (isMember) this.#unknownTicks = Infinity;
    else if (this.#unknownTicks++ >= MAX_UNKNOWN_TICKS) return this.end(new Error('the node is gone'));
    if (this.#wire === undefined) return;
    if (!this.#hasSent) this.send(PING, '', []);
    this.#hasSent = false;
    if (this.#silentTicks++ >= MAX_SILENT_TICKS) this.end(new Error('the other node is silent'));
  }

  /** @param why `undefined` if this node ends the link. */
  end(why?: unknown): void {
    if (this.#isOver) return;
    if (why === undefined) for (const end of this.#ends.values()) end.handleEnding?.();
    if (this.#isOver) return;
    this.#isOver = true;
    this.#waiting = [];
    if (why === undefined) this.#hangUp();
    else this.#wire?.terminate();
    this.#options.onOver(why);
    for (const end of this.#ends.values()) end.handleOver(why);
    this.quota.close();
    this.#wake();
  }

  /** Ends the link. Resolves when the other node has read everything, or has not in a second. */
  async leave(): Promise<void> {
    if (this.#isOver) return;
    const closed = new Promise<void>((resolve) => {
      this.#onClosed = resolve;
    });
    this.end();
    if (this.#wire?.close !== undefined) await closed;
  }

  /** A socket that is cut off while something has come that was not read loses also what was sent. */
  #hangUp(): void {
    const wire = this.#wire;
    if (wire?.close === undefined) return wire?.terminate();
    if (this.#isHeld) wire.unhold?.();
    wire.close(CloseCode.NORMAL, '');
    terminateSoon(wire);
  }

  get #unwritten(): number {
    return this.#wire?.bufferedAmount ?? 0;
  }

  #write(message: Uint8Array): void {
    const { traffic } = this.#options;
    this.#hasSent = true;
    traffic.messagesSent++;
    traffic.bytesSent += message.length;
    this.#wire?.send(message);
  }

  #wake(): void {
    for (const wake of this.#pieces.splice(0)) wake();
  }

  /** Reads from the other node only while that node reads the messages of this one. */
  #pace(): void {
    const isFull = this.#unwritten > MAX_UNREAD;
    if (this.#options.accept === undefined || this.#isOver || isFull === this.#isHeld) return;
    this.#isHeld = isFull;
    if (isFull) this.#wire?.hold?.();
    else this.#wire?.unhold?.();
  }

  #handle(data: Uint8Array | string): void {
    const { traffic, accept } = this.#options;
    this.#silentTicks = 0;
    traffic.messagesReceived++;
    traffic.bytesReceived += data.length;
    const message = decodeLinkMessage(data);
    const { service } = message;
    if (service === PING) return;
    const end = this.#ends.get(service) ?? accept?.(service, this);
    if (end === undefined) throw malformed();
    this.#ends.set(service, end);
    end.handle(message);
  }

  // --- as the listener of the wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    try {
      this.#handle(data);
    } catch (error) {
      return this.end(error);
    }
    this.#pace();
  }
  onDrain(): void {
    this.#pace();
    this.#wake();
  }
  onClose(code: number, reason: string): void {
    this.#onClosed?.();
    const isLeft = code === CloseCode.NORMAL;
    this.end(isLeft ? LEFT : new ProtocolError('connection_failed', `closed with ${code} ${reason}`));
  }
  onFault(error: unknown): void {
    this.end(error);
  }
  onControl(): void {}
  onData(): void {}
}
