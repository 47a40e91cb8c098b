import { CloseCode, type Limits, type Logger, type ProtocolError } from '@parlance/protocol';
import { loggable, type SessionMemory, systemClock } from '@parlance/protocol/internal';
import { MAX_LINK_FRAME } from '../http/unfinished-message.js';
import type { ServerWire, WireEvents } from '../http/ws.js';

/** Bytes that wait to be written to one end; beyond them the other end is not read. */
export const MAX_WAITING = 256 * 1024;
/** To a client: its session goes on, and another connection may resume it. */
const SERVICE_RESTART = 1012;

export interface LeadOptions {
  readonly limits: Limits;
  readonly memory: SessionMemory;
  readonly logger: Logger;
  readonly sessionId: string;
  /** The lead is over. */
  readonly onOver: () => void;
}

/**
 * Passes every WebSocket message between a client and the node that has its session. It knows nothing of sessions: what
 * it does not pass on in time is not read, so the credit of the two ends bounds what waits here.
 */
export class Lead implements WireEvents {
  readonly #near: ServerWire;
  readonly #far: ServerWire;
  readonly #options: LeadOptions;
  #isNearHeld = false;
  #isFarHeld = false;
  #isOver = false;

  /**
   * @param near to the client; reported by its connection.
   * @param far to the owner; the caller makes the lead its listener.
   */
  constructor(near: ServerWire, far: ServerWire, options: LeadOptions) {
    this.#near = near;
    this.#far = far;
    this.#options = options;
  }

  // --- as the target of the client's connection

  get wire(): ServerWire {
    return this.#near;
  }
  get memory(): SessionMemory {
    return this.#options.memory;
  }
  /** Only a session with a link can be resumed. */
  get longestMessage(): number {
    return Math.min(MAX_LINK_FRAME, this.#options.limits.maxMessageSize);
  }

  handleMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    this.#far.send(data);
    if (this.#isNearHeld || this.#far.bufferedAmount <= MAX_WAITING) return;
    this.#isNearHeld = true;
    this.#near.hold();
  }

  /** The client has read what waited for it. */
  handleWritable(): void {
    if (!this.#isFarHeld) return;
    this.#isFarHeld = false;
    this.#far.unhold();
  }

  handleDisconnected(code: number, reason: string): void {
    if (this.#isOver) return;
    this.#end();
    if (code === CloseCode.ABNORMAL) this.#far.terminate();
    else this.#far.close(code, reason);
  }

  /** The client has broken a rule that this node watches. */
  abort({ closeCode, message }: ProtocolError): void {
    this.#close(closeCode, message);
  }

  crash(error: unknown): void {
    if (this.#isOver) return;
    const { logger, sessionId } = this.#options;
    const fields = { event: 'session.failed', session: sessionId, err: loggable(error) };
    logger.error(fields, 'passing a session on has failed, its connection is closed');
    this.leave('this node failed');
  }

  // --- as the listener of the owner's wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    try {
      this.#near.send(data);
      if (this.#isFarHeld || this.#near.bufferedAmount <= MAX_WAITING) return;
      this.#isFarHeld = true;
      this.#far.hold();
    } catch (error) {
      this.crash(error);
    }
  }

  /** The owner has read what waited for it. */
  onDrain(): void {
    if (!this.#isNearHeld) return;
    this.#isNearHeld = false;
    this.#near.unhold();
  }

  onClose(code: number, reason: string): void {
    if (this.#isOver) return;
    this.#end();
    if (code === CloseCode.ABNORMAL)
      this.#near.close(SERVICE_RESTART, 'the node that has the session is gone');
    else this.#near.close(code, reason);
  }

  onFault(error: unknown): void {
    this.crash(error);
  }

  onControl(): void {}
  onData(): void {}

  // --- by this node

  /** Lets the client come back to another node. */
  leave(reason: string): void {
    this.#close(SERVICE_RESTART, reason);
  }

  handleTick(): void {
    this.memory.handleTick(systemClock.now());
  }

  #close(code: number, reason: string): void {
    if (this.#isOver) return;
    this.#end();
    this.#near.close(code, reason);
    this.#far.close(code, reason);
  }

  #end(): void {
    this.#isOver = true;
    // What arrives from now on is read and dropped, so that the ends can close.
    this.onDrain();
    this.handleWritable();
    this.memory.close();
    this.#options.onOver();
  }
}
