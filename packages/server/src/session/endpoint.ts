import {
  type BodyCounts,
  CloseCode,
  type GoAwayPayload,
  type HelloPayload,
  isProtocolError,
  type Message,
  ProtocolError,
  type ReceivedBody,
  type ResumeOffer,
  type SessionCore,
  type SessionEvents,
  type Throttled,
} from '@parlance/protocol';
import {
  type Answer,
  assertOptions,
  type BodyCoder,
  type CallOptions,
  type EndpointOptions,
  guard,
  guardLater,
  type OwnHandler,
  type Wire,
} from '@parlance/protocol/internal';
import { memoryKeys } from '../transport/http/addresses.js';
import { longestMessage } from '../transport/unfinished-message.js';
import { assertDurable, type DurableState, stateOf } from './durable-state.js';
import { MovingEndpoint } from './moving-endpoint.js';
import type { SessionObserver } from './observer.js';
import {
  type ClientInfo,
  type CommitOptions,
  encodeData,
  ServedSession,
  type ServedSessionHost,
  type ServerSession,
} from './served-session.js';
import { TrafficRecorder } from './traffic-recorder.js';
import { UnreadWatch } from './unread.js';

/** Bytes of WebSocket messages on the present connection. */
export interface WireBytes {
  readonly received: number;
  readonly sent: number;
}

export interface ServerEndpointOptions extends EndpointOptions {
  /** The iterator that the reader of a session gets in place of its messages. @default the messages */
  readonly readerOf?:
    | ((messages: AsyncIterator<Message>, session: ServerSession) => AsyncIterator<Message>)
    | undefined;
  /** Tells features that the application is done with a message or a tensor. @default no feature is notified */
  readonly onHandled?: ((session: ServerEndpoint, message: Message) => void) | undefined;
  /** The class of the session that its application has. @default ServedSession */
  readonly Session?: typeof ServedSession | undefined;
  /** @default none */
  readonly observer?: SessionObserver | undefined;
}

const NO_BYTES: WireBytes = { received: 0, sent: 0 };
const NO_CLIENT: ClientInfo = { remoteAddress: '', userAgent: undefined };

/** The endpoint of a server: what its connection and other sessions ask of it. */
export class ServerEndpoint extends MovingEndpoint implements ServedSessionHost {
  declare readonly session: ServerSession;
  declare readonly options: ServerEndpointOptions;
  override readonly recorder = new TrafficRecorder();
  /** The address of the client that the session counts for. */
  ip = '';
  /** The client at the other end of the present connection, or of the last one. */
  client = NO_CLIENT;
  since = 0;
  /** The node that proxies the present connection. */
  proxiedBy: string | undefined;
  /** When HELLO has arrived, in milliseconds of the process. */
  helloAt = 0;
  /** When it has lost its last connection, in milliseconds of the process. */
  lostAt = 0;
  /** The round trip that was last observed. */
  #roundTripMs: number | undefined;
  /** How often the session has gone to another node, as far as its record says. */
  epoch = 0;
  /** The client was asked to leave, and not to come back with this session. */
  hasFarewell = false;
  /** `onSession` has not returned. */
  running: Promise<void> | undefined;
  /** Bytes before the present connection. */
  #before = NO_BYTES;
  /** The JSON of {@link data}. */
  dataText: string | undefined;
  /** Bodies of this session that wait to be written to other sessions. */
  relayed = 0;
  /** Another node would code what this session is sent; its own does. */
  readonly isRemote: boolean = false;
  /** Nothing but its resume token tells who the client is, as the server has no `authenticate`. */
  isAnonymous = false;
  /** Another node has the session from its record, or will have it: it ends here, and continues there. */
  isElsewhere = false;
  /** The record of the session, if it has one. */
  record: DurableState | undefined;
  /** State that features keep of the session; see `Slot`. */
  slots: unknown[] | undefined;
  /** Created when the client has first left messages unread. */
  #unread: UnreadWatch | undefined;

  protected override createSession(): ServerSession {
    return new (this.options.Session ?? ServedSession)(this);
  }

  override get memoryKeys(): readonly string[] {
    return memoryKeys(this.ip, this.isAnonymous ? undefined : this.principal);
  }

  /** A server loads what a session needs before it begins. */
  override get isPreloaded(): boolean {
    return true;
  }

  /** Why it is over, in one word. */
  endOf(error: ProtocolError | undefined): string {
    if (this.hasMoved) return 'moved';
    // Browsers say so of a page that is closed, left or loaded again; here it has not come back.
    if (error?.code === 'session_lost' && this.lostWith === CloseCode.GOING_AWAY) return 'page_left';
    return error?.code ?? 'closed';
  }

  /** How long its client has not been heard although it is connected, in milliseconds; `undefined` if it is heard. */
  get silentMs(): number | undefined {
    return this.hasWire ? this.core.silentMs(this.options.clock.now()) : undefined;
  }

  get hasWire(): boolean {
    return this.wire !== undefined;
  }

  /** @throws {ProtocolError} `session_closed` unless the session is ready. */
  get coder(): BodyCoder {
    return this.outbound.coder;
  }

  /** Bytes of the longest WebSocket message that its client may send; `undefined` before ACCEPT. */
  get longestMessage(): number | undefined {
    const { core, options } = this;
    return core.negotiated === undefined ? undefined : longestMessage(core, options.limits);
  }

  override get waitingMessages(): number {
    return super.waitingMessages + this.relayed;
  }

  /** `wire` resumes the session. The connection before it is cut off before any count is exchanged. */
  handleResumed(wire: Wire, offer: ResumeOffer, client: ClientInfo, ledBy?: string): void {
    const former = this.wire;
    this.client = client;
    this.proxiedBy = ledBy;
    this.dropHeld();
    const { received, sent } = this.stats();
    this.#before = { received: received.wireBytes, sent: sent.wireBytes };
    this.command((core, now) => {
      this.replaceWire(undefined);
      core.handleDisconnected(CloseCode.ABNORMAL, 'taken over', now);
      this.replaceWire(wire);
      // A client that reads the former one after all, because the repeated HELLO was late, comes back to its session.
      if (offer.again) former?.close(CloseCode.TIMEOUT, 'HELLO has come again on another connection');
      else former?.close(CloseCode.TAKEN_OVER, 'a newer connection carries the session');
      const received = core.resume(offer, now);
      if (received !== undefined) this.options.route?.handleRebuilt(received);
      if (this.core.record?.isBehind) this.#reportBehind();
    });
  }

  #reportBehind(): void {
    const fields = { event: 'record.lost', session: this.id };
    const message = 'the engine has lost commits of which the client had heard; the client is told';
    this.logger.error(fields, message);
  }

  /** Begins with the HELLO that has come on `wire`. The core accepts or rejects it next. */
  begin(wire: Wire, hello: HelloPayload, answer: Answer, size: number): void {
    this.replaceWire(wire);
    this.recorder.received(size);
    this.core.greet(hello, answer, this.options.clock.now());
  }

  override notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    if (name === 'throttled') {
      this.observer?.handleLimited((event as Throttled).limit);
      const fields = { event: 'session.throttled', session: this.id, ...(event as Throttled) };
      this.logger.warn(fields, 'the client sends as much as its rate allows, and the rest waits there');
    }
    super.notify(name, event);
  }

  override handleTick(): void {
    if (this.isFrozen) return;
    super.handleTick();
    if (this.#roundTripMs !== this.core.roundTripMs) this.#handleRoundTrip();
    if (this.hasEnded || (this.#unread === undefined && !this.core.isBlockedOnCredit)) return;
    this.#unread ??= new UnreadWatch(this);
    guard(this, () => this.#unread?.handleTick(this.core.stalled, this.options.clock.now()));
  }

  #handleRoundTrip(): void {
    const { roundTripMs } = this.core;
    this.#roundTripMs = roundTripMs;
    if (roundTripMs !== undefined) this.observer?.handleRoundTrip(roundTripMs / 1000);
  }

  handleTransfer(direction: 'sent' | 'received', error: unknown): void {
    const failure = this.hasEnded ? 'lost' : isRefusal(error) ? 'refused' : 'cancelled';
    this.observer?.handleTransfer(direction, error === undefined ? 'whole' : failure);
  }

  get observer(): SessionObserver | undefined {
    return this.options.observer;
  }

  bodies(direction: 'sent' | 'received'): BodyCounts | undefined {
    return direction === 'sent' ? this.core.channel.sentBodies : this.recorder.receivedBodies;
  }

  /** How long the credentials of the connection are valid, in Unix milliseconds; `null` for ever. */
  grant(expiresAt: number | null): void {
    this.command((core, now) => core.grant(expiresAt, now));
  }

  /** Tells the client that the server drains. */
  sendGoAway(payload: GoAwayPayload): void {
    if (payload.move !== true) this.hasFarewell = true;
    this.command((core, now) => core.sendGoAway(payload, now));
  }

  /**
   * Gives a command to the core on behalf of another session.
   *
   * @throws {ProtocolError} what the core refuses; `session_closed` after a fault, which ends this session and not
   * the other one.
   */
  perform<Result>(command: (core: SessionCore) => Result): Result {
    if (this.hasEnded || this.isFrozen) throw sessionFailed();
    const result = this.#blame(() => command(this.core));
    this.pump();
    return result;
  }

  /**
   * As {@link perform} for commands without a result, of which a session that is over need not know: see `hear`. Never throws;
   * a refusal ends this session as well.
   */
  tell(command: (core: SessionCore) => void): void {
    this.command(command);
  }

  credit(streamId: number, charge: number): boolean {
    let isDue = false;
    this.hear(() => {
      isDue = this.core.channel.consume(streamId, charge);
    });
    return isDue;
  }

  /** @throws {ProtocolError} what `task` throws; `session_closed` after a fault, which ends this session. */
  #blame<Result>(task: () => Result): Result {
    try {
      return task();
    } catch (error) {
      if (isProtocolError(error)) throw error;
      this.crash(error);
      throw sessionFailed();
    }
  }

  /**
   * Answers a received request with a handler of the server's. Never throws.
   *
   * @param again how often it was called before, and whether another node calls it again if this one dies.
   */
  answer(
    streamId: number,
    body: ReceivedBody,
    handler: OwnHandler,
    again: Omit<CallOptions, 'isOwn'> & { readonly isRepeated?: boolean } = {},
  ): void {
    this.hear(() => {
      if (again.isRepeated) this.repeat(streamId);
      guardLater(this, this.inbound.answer(streamId, body, handler, again));
    });
  }

  // --- for the application

  hooked(messages: AsyncIterator<Message>): AsyncIterator<Message> {
    return this.options.readerOf?.(messages, this.session) ?? messages;
  }

  get data(): unknown {
    return this.dataText === undefined ? undefined : JSON.parse(this.dataText);
  }
  set data(value: unknown) {
    const text = encodeData(value);
    this.assertHere();
    this.core.record?.setState(stateOf(text));
    this.dataText = text;
  }

  // --- recorded

  get isDurable(): boolean {
    return this.record !== undefined;
  }

  /** How long it outlives its node, in milliseconds. */
  get retentionMs(): number {
    return this.record?.lastsMs ?? 0;
  }

  commit(options: CommitOptions): Promise<void> {
    const record = assertDurable(this.record, 'commit');
    assertOptions(options, { data: 'any', send: 'list' }, 'commit');
    const { data, send = [] } = options;
    const text = encodeData(data);
    return record.commit(text === undefined ? undefined : stateOf(text), send, () => {
      this.dataText = text ?? this.dataText;
    });
  }

  handledUpTo(number: number): void {
    assertDurable(this.record, 'handledUpTo').handledUpTo(number);
  }

  override handleTaken(charge: number, message?: Message): void {
    if (message?.number !== undefined) this.record?.handleTaken(message.number, message);
    super.handleTaken(charge);
  }

  handleDone(number: number | undefined, message?: Message): void {
    if (number !== undefined) this.record?.handleDone(number);
    else if (message !== undefined) this.handled(message);
  }

  /** The application is done with a message. */
  handled(message: Message): void {
    this.options.onHandled?.(this, message);
  }

  hasHandled(number: number): boolean {
    return this.record?.hasHandled(number) === true;
  }

  repeat(streamId: number): void {
    this.core.record?.repeat(streamId);
  }

  markKept(streamId: number, id: string): Promise<void> | undefined {
    if (this.record === undefined || this.hasEnded) return undefined;
    this.core.record?.keep(streamId, id);
    // A session that ends first does not need it.
    return this.record.recorded().catch(() => {});
  }

  recorded(): Promise<void> | undefined {
    return this.record?.recorded();
  }

  override get endingSteps(): MovingEndpoint['endingSteps'] {
    return [...super.endingSteps, (error) => this.record?.end(error)];
  }

  // --- moving to another node

  get wireBytes(): WireBytes {
    const { received, sent } = this.stats();
    const before = this.#before;
    const waiting = this.input.reduce((sum, { length }) => sum + length, 0);
    return { received: received.wireBytes - before.received + waiting, sent: sent.wireBytes - before.sent };
  }

  /** Continues the session of another node. */
  restore(): void {
    this.isMoved = true;
    this.isReady = true;
  }

  /** The connection of a session that was restored. */
  attach(wire: Wire): void {
    this.replaceWire(wire);
  }
}

function sessionFailed(): ProtocolError {
  return new ProtocolError('session_closed', 'the session was closed', { side: 'remote' });
}

/** Whether a transfer was refused; `cancelled` and all that is not of this protocol is a reason of the application. */
function isRefusal(error: unknown): boolean {
  return isProtocolError(error) && error.code !== 'cancelled';
}
