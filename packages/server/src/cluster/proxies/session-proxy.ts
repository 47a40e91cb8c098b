import { CloseCode, type Limits, type Logger, type ProtocolError } from '@parlance/protocol';
import { loggable, type SessionMemory, systemClock } from '@parlance/protocol/internal';
import type { ProxyTarget } from '../../session/admission/lookup.js';
import type { Origin } from '../../session/admission/renewal.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { Transport, TransportEvents } from '../../transport/transport.js';
import { MAX_LINK_FRAME } from '../../transport/unfinished-message.js';

/** Bytes that wait to be written to one end; beyond them the other end is not read. */
export const MAX_WAITING = 256 * 1024;
/** To a client: its session continues, and another connection may resume it. */
const SERVICE_RESTART = 1012;

interface Closed {
  readonly code: number;
  readonly reason: string;
}

export interface SessionProxyOptions {
  readonly limits: Limits;
  readonly memory: SessionMemory;
  readonly logger: Logger;
  readonly sessionId: string;
  /** The node that has the session. */
  readonly owner: string;
  /** The client, as this node has authenticated it. */
  readonly origin: Origin;
  /** The proxy is over. */
  readonly onOver: () => void;
}

/**
 * Passes every WebSocket message between a client and the node that has its session. It knows nothing of sessions: what
 * it does not pass on in time is not read, so the credit of the two ends bounds what waits here.
 */
export class SessionProxy implements TransportEvents, ProxyTarget {
  readonly #near: Transport;
  readonly #far: Transport;
  readonly #options: SessionProxyOptions;
  #isNearHeld = false;
  #isFarHeld = false;
  #isOver = false;
  /** Bytes of messages that were passed on to each end. */
  #forwarded = 0;
  #passed = 0;
  /** Messages of the client since the session began to move; `undefined` while it does not. */
  #held: (Uint8Array | string)[] | undefined;
  /** How the ends were closed meanwhile. */
  #nearClosed: Closed | undefined;
  #farClosed: Closed | undefined;
  #onPassed: () => void = () => {};
  /** The session continues here, on the client's connection. */
  onHandedOver: (session: ServerEndpoint) => void = () => {};

  /**
   * @param near to the client; reported by its connection.
   * @param far to the owner; the caller makes the proxy its listener.
   */
  constructor(near: Transport, far: Transport, options: SessionProxyOptions) {
    this.#near = near;
    this.#far = far;
    this.#options = options;
  }

  // --- as the target of the client's connection

  get wire(): Transport {
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
    if (this.#held !== undefined) {
      this.#held.push(data);
      return;
    }
    this.#forward(data);
  }

  #forward(data: Uint8Array | string): void {
    this.#forwarded += data.length;
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
    if (this.#held !== undefined) {
      this.#nearClosed ??= { code, reason };
      return;
    }
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
      this.#passed += data.length;
      this.#near.send(data);
      if (this.#held !== undefined) this.#onPassed();
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
    if (this.#held !== undefined) {
      this.#farClosed ??= { code, reason };
      this.#onPassed();
      return;
    }
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

  // --- while the session moves to this node

  get sessionId(): string {
    return this.#options.sessionId;
  }
  get owner(): string {
    return this.#options.owner;
  }
  get origin(): Origin {
    return this.#options.origin;
  }

  /** Keeps what the client says from now on. Returns how many bytes were passed on; `undefined` if it cannot. */
  hold(): number | undefined {
    if (this.#isOver || this.#held !== undefined) return undefined;
    this.#held = [];
    this.#near.hold();
    return this.#forwarded;
  }

  /** Resolves when the client has been told so many bytes: to `false` if it will not be. */
  async passed(bytes: number): Promise<boolean> {
    while (this.#passed < bytes && this.#farClosed === undefined && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#onPassed = resolve;
      });
    }
    return this.#passed === bytes && !this.#isOver;
  }

  /** The session stays where it is: passes on what was kept. */
  release(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    this.#near.unhold();
    if (this.#isOver) return;
    for (const data of held) this.#forward(data);
    const [near, far] = [this.#nearClosed, this.#farClosed];
    if (near !== undefined) this.handleDisconnected(near.code, near.reason);
    else if (far !== undefined) this.onClose(far.code, far.reason);
  }

  /**
   * The session continues here, with the messages that were kept.
   *
   * @param input messages that were passed on and not handled.
   */
  handOver(session: ServerEndpoint, input: readonly (Uint8Array | string)[]): void {
    const held = [...input, ...(this.#held ?? [])];
    const [near, closed] = [this.#near, this.#nearClosed];
    this.#held = undefined;
    session.attach(near);
    this.onHandedOver(session);
    this.#end();
    this.#far.close(CloseCode.NORMAL, '');
    for (const data of held) session.handleMessage(data, near, systemClock.now());
    if (closed !== undefined) session.handleDisconnected(closed.code, closed.reason, near);
    session.pump();
    near.unhold();
  }

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
    this.#onPassed();
    // Messages that arrive from now on are read and dropped, so that the ends can close.
    this.onDrain();
    this.handleWritable();
    this.memory.close();
    this.#options.onOver();
  }
}
