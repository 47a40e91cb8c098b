import { CloseCode, ProtocolError, type SessionCore } from '@parlance/protocol';
import {
  Endpoint,
  guard,
  logCrash,
  type Outbound,
  type ServerSessionCore,
  type StreamQueue,
  type Wire,
  withResolvers,
} from '@parlance/protocol/internal';
import { MovableMailbox } from './movable-mailbox.js';

/** An endpoint of a server whose session can be held and frozen, and can continue at another node. */
export abstract class MovingEndpoint extends Endpoint {
  /** Every core that has the role of a server is one. */
  declare readonly core: ServerSessionCore;
  isMoved = false;
  /** The session continues at another node. */
  hasMoved = false;
  /** Called when the work that keeps the session here may be over, and when something has arrived that is held. */
  onChange: (() => void) | undefined;
  /** `onSession` was asked to return. */
  isStopped = false;
  #controller: AbortController | undefined;
  /** A snapshot was taken: nothing changes until it is known which node continues from it. */
  #isFrozen = false;
  /** Another node continues it, also if this one fails. */
  #isGivenUp = false;
  /** Tasks that were passed to {@link hear} since it is frozen. They run if it stays. */
  #unheard: (() => void)[] | undefined;
  /** The first fault since it is frozen, of which it ends if it stays. */
  #fault: { readonly error: unknown } | undefined;
  /** Messages of the client since the session was to be moved. Its next node handles them. */
  #input: (Uint8Array | string)[] | undefined;
  #inputSize = 0;
  #released: ReturnType<typeof withResolvers<void>> | undefined;
  /** Why it is here no more, if it has not moved in order. */
  #loss: ProtocolError | undefined;
  /** How the connection was lost meanwhile. */
  #lost: { readonly code: number; readonly reason: string } | undefined;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.hasEnded) this.#controller.abort();
    return this.#controller.signal;
  }

  override get outbound(): Outbound {
    this.assertHere();
    return super.outbound;
  }

  /** Requests wait here for a stream; `undefined` if the session is moving. @throws {ProtocolError} if it is not ready. */
  get streamQueue(): StreamQueue<object> | undefined {
    return this.#isFrozen ? undefined : this.outbound.requester.queue;
  }

  override get endingSteps(): Endpoint['endingSteps'] {
    return [...super.endingSteps, () => this.#controller?.abort(), (error) => this.#endUnanswered(error)];
  }

  /**
   * A client that has not answered CLOSE in its time gets the close frame of the WebSocket, and no time besides to answer it.
   * Others may have it: one that has sent no HELLO, and one that closes because it was idle.
   */
  #endUnanswered(error: ProtocolError | undefined): void {
    const { wire, core } = this;
    if (error?.code !== 'timeout' || error.side === 'remote' || core.negotiated === undefined) return;
    // The close frame is written at the end of this task.
    queueMicrotask(() => wire?.terminate?.());
  }

  /** @throws {ProtocolError} `draining` if it moves or has moved, and `fenced` if this node has lost it. */
  protected assertHere(): void {
    if (this.#isFrozen) throw this.#loss ?? isMoving();
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /**
   * The session could move now: apart from `onSession`, nothing in this process has to do with it.
   *
   * @param isLeft whether the handler of a stream continues elsewhere.
   */
  isQuiet(isLeft: (streamId: number) => boolean): boolean {
    if (this.hasEnded || this.#isFrozen || this.scanner?.isIdle === false) return false;
    return this.mailbox instanceof MovableMailbox && this.isCalm(isLeft) && this.core.canSnapshot;
  }

  /**
   * Nothing in this process waits for the session, and it waits for nothing.
   *
   * @param isLeft whether a handler does not matter.
   */
  isAtRest(isLeft: (streamId: number) => boolean): boolean {
    if (this.hasEnded || this.#isFrozen || this.scanner?.isIdle === false || !this.isCalm(isLeft))
      return false;
    const { openStreams } = this.core.channel;
    if (openStreams > 0 && this.#streamsOfHandlers.filter(isLeft).length < openStreams) return false;
    return !(this.mailbox instanceof MovableMailbox && this.mailbox.isReading);
  }

  /** Resolves when the session {@link isHeld} no longer, for what would give it more. */
  released(): Promise<void> {
    this.#released ??= withResolvers<void>();
    return this.#released.promise;
  }

  override handleTick(): void {
    super.handleTick();
    guard(this, () => this.#restIfIdle());
  }

  /** An idle session keeps what it has agreed on and its counts; the next frame makes the rest again. */
  #restIfIdle(): void {
    const { core } = this;
    const now = this.options.clock.now();
    if (!(this.isAwake || core.isAwake) || core.idleMs(now) < REST_MS) return;
    const isUsed = this.isHeld || this.waitingMessages > 0 || !this.isAtRest(() => false);
    if (!isUsed && core.rest(now)) this.rest();
  }

  #release(): void {
    this.#released?.resolve();
    this.#released = undefined;
  }

  get #streamsOfHandlers(): number[] {
    return [...(this.inbound.responder?.streams ?? [])];
  }

  /** Asks `onSession` to return. */
  stopReading(): void {
    if (this.mailbox instanceof MovableMailbox) this.mailbox.stop();
    this.#controller ??= new AbortController();
    this.#controller.abort();
    this.isStopped = true;
  }

  /** `onSession` is called again, because the session stays. */
  startReading(): void {
    if (this.mailbox instanceof MovableMailbox) this.mailbox.start();
    this.#controller = undefined;
    this.isStopped = false;
    this.isMoved = true;
  }

  /** Fails the replies of handlers that have not ended, stops these handlers, and fails calls that wait for the client. */
  failAll(reason: ProtocolError, isLeft: (streamId: number) => boolean): void {
    guard(this, () => {
      const { responder } = this.inbound;
      for (const streamId of this.#streamsOfHandlers)
        if (!isLeft(streamId)) responder?.fail(streamId, reason);
      this.outbound.failCalls(reason);
      this.ending.failFlush(reason);
    });
    this.pump();
  }

  /** Closes the connection; another one may resume the session. */
  loseWire(code: number, reason: string): void {
    const { wire } = this;
    if (wire === undefined) return;
    this.handleDisconnected(CloseCode.ABNORMAL, reason, wire);
    wire.close(code, reason);
  }

  get isHeld(): boolean {
    return this.#input !== undefined;
  }

  /** Messages that have arrived since {@link holdInput}. */
  get input(): readonly (Uint8Array | string)[] {
    return this.#input ?? [];
  }

  /** Handles nothing of what arrives from now on, until {@link thaw} or until {@link MAX_INPUT} have arrived. */
  holdInput(): void {
    if (this.#input !== undefined) return;
    this.#input = [];
    this.#inputSize = 0;
  }

  /** Nothing changes from now on, until {@link thaw} or {@link forget}. */
  freeze(): void {
    this.holdInput();
    this.#isFrozen = true;
  }

  /** As {@link freeze}, until {@link forget}. */
  giveUp(): void {
    this.freeze();
    this.#isGivenUp = true;
  }

  /**
   * Does what a feature or another session asks of this one: at once; later, if it is frozen and stays here; or not at
   * all, if it is over or continues elsewhere. Every call from outside the session passes here. Never throws.
   */
  protected hear(task: () => void): void {
    if (this.hasEnded || this.#isGivenUp) return;
    if (this.#isFrozen) {
      this.#unheard ??= [];
      this.#unheard.push(task);
    } else guard(this, task);
  }

  protected override command(command: (core: SessionCore, now: number) => void): void {
    this.hear(() => super.command(command));
  }

  /** A fault of something else while the session is frozen says nothing about the session that continues elsewhere. */
  override crash(error: unknown): void {
    if (this.#isFrozen && !this.hasEnded) this.#fault ??= { error };
    else super.crash(error);
  }

  /** The session stays here. */
  thaw(): void {
    if (!this.#isFrozen && this.#input === undefined) return;
    const [input, lost, unheard, fault] = [this.input, this.#lost, this.#unheard, this.#fault];
    this.#isFrozen = false;
    this.#input = undefined;
    this.#lost = undefined;
    this.#unheard = undefined;
    this.#fault = undefined;
    if (fault !== undefined) return this.crash(fault.error);
    for (const task of unheard ?? []) this.hear(task);
    this.#release();
    for (const data of input) this.handleMessage(data);
    if (lost !== undefined) this.handleDisconnected(lost.code, lost.reason);
    this.pump();
    this.handleTick();
  }

  /** Another node continues the session. @param failure why handlers are stopped, and calls fail. */
  forget(failure?: ProtocolError): void {
    this.#isFrozen = true;
    this.#loss ??= failure;
    this.hasMoved = true;
    if (this.hasEnded) return;
    this.#unheard = undefined;
    if (this.#fault !== undefined) logCrash(this.logger, this.id, this.#fault.error);
    const { wire } = this;
    this.replaceWire(undefined);
    this.ending.leave(failure ?? goneOn());
    wire?.close(CloseCode.NORMAL, '');
  }

  /** Another connection resumes the session. Held messages were never counted, so the client sends them again. */
  protected dropHeld(): void {
    this.#input = undefined;
    this.#lost = undefined;
    this.#release();
  }

  override apply(): void {
    if (this.#isFrozen) return;
    super.apply();
    this.onChange?.();
  }

  handleAnswered(): void {
    this.onChange?.();
  }

  override transmit(): void {
    if (!this.#isFrozen) super.transmit();
  }

  override handleMessage(data: Uint8Array | string, wire?: Wire, now?: number, isPart?: boolean): void {
    if (this.#input === undefined) return super.handleMessage(data, wire, now, isPart);
    if (wire !== undefined && wire !== this.wire) return;
    this.#input.push(data);
    this.#inputSize += data.length + INPUT_OVERHEAD;
    // Rates and budgets hold for what is handled, so a client that floods keeps its session here for now.
    if (this.#inputSize > MAX_INPUT && !this.#isFrozen) this.thaw();
    else this.onChange?.();
  }

  /** How its last connection has closed. */
  protected lostWith: number | undefined;

  override handleDisconnected(code: number, reason: string, wire: Wire | undefined = this.wire): void {
    if (wire === this.wire) this.lostWith = code;
    if (!this.#isFrozen && this.#input === undefined) super.handleDisconnected(code, reason, wire);
    else if (wire !== undefined && wire === this.wire) this.#lost ??= { code, reason };
  }
}

/** Milliseconds without data after which a session rests. A tick later, ten seconds are not over yet. */
const REST_MS = 8_000;
/** Bytes that a client may send between the time its session is to move and the time its node holds it. */
const MAX_INPUT = 8 * 1024 * 1024;
/** Bytes that a message counts for in addition to its content. */
export const INPUT_OVERHEAD = 64;

function isMoving(): ProtocolError {
  return new ProtocolError('draining', 'the session is moving to another node');
}

function goneOn(): ProtocolError {
  return new ProtocolError('session_closed', 'the session continues at another node');
}
