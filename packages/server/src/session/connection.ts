import { type HelloPayload, ProtocolError, type Subprotocol } from '@parlance/protocol';
import { createServerSession, guard, type ServerSessionCore, systemClock } from '@parlance/protocol/internal';
import { addressKey } from '../transport/http/addresses.js';
import type { Refusal } from '../transport/http/site.js';
import { LoopQueue } from '../transport/loop-queue.js';
import { Meter } from '../transport/meter.js';
import { type Transport, type TransportEvents, terminateSoon } from '../transport/transport.js';
import { FREE_UNFINISHED, isOverlong, UnfinishedMessage } from '../transport/websocket/unfinished-message.js';
import { countedPrincipal } from './admission/authentication.js';
import { Handshake, type HandshakeEvents } from './admission/handshake.js';
import { warnOfEnd } from './admission/keys.js';
import { renew } from './admission/renewal.js';
import type { Guide, PassedPeer, Target } from './admission/seek.js';
import { ServerEndpoint } from './endpoint.js';
import { type ConnectionHost, SessionSettings } from './session-settings.js';

/** Reading up to this many bytes of an unfinished message is not counted as time of the loop. */
const UNTIMED_UNFINISHED = 64 * 1024;
/**
 * Messages that arrived together take effect together, up to this many: their effects are handlers that run, and time of the
 * loop is shared between messages.
 */
const MAX_TOGETHER = 8;

/**
 * One accepted WebSocket connection: feeds its session and reports what becomes of it.
 *
 * There is one per connection, so keep it small: shared values are read from the host, event handlers are prototype
 * methods, and what only the handshake or a long message needs exists only that long.
 */
export class Connection extends SessionSettings implements TransportEvents, HandshakeEvents {
  readonly core: ServerSessionCore;
  /** The session that began here; another connection may resume it. */
  readonly session: ServerEndpoint;
  protected readonly host: ConnectionHost;
  readonly #wire: Transport;
  readonly #ip: string;
  readonly #meter: Meter;
  protected readonly queue: LoopQueue;
  /** The session that this connection feeds: its own, or the one that it has resumed, here or at another node. */
  #target: Target;
  #handshake: Handshake | undefined;
  /** Bytes that have arrived since the last whole message. */
  #unfinishedBytes = 0;
  /** Messages of this read whose effects wait. */
  #together = 0;
  #unfinished: UnfinishedMessage | undefined;
  #isAdmitted = false;
  #isCutOff = false;
  #isClosed = false;
  /** The session that began here has ended, or was abandoned for another one. */
  #isOver = false;

  /**
   * @param refusal a decision made at the upgrade. It is sent in REJECT, because a browser hides an HTTP refusal from
   * its page.
   */
  constructor(
    host: ConnectionHost,
    wire: Transport,
    peer: PassedPeer,
    subprotocol: Subprotocol,
    refusal: Refusal | undefined,
  ) {
    super();
    this.host = host;
    this.#wire = wire;
    this.#ip = peer.ip;
    // Before authentication only the address is known.
    this.queue = new LoopQueue(host.loop, wire, `address ${addressKey(peer.ip)}`);
    this.#meter = new Meter(wire, host.options.limits);
    this.core = createServerSession(host.sessionOptions(subprotocol));
    this.session = new ServerEndpoint(this);
    this.session.ip = peer.ip;
    this.#target = this.session;
    const handshake = new Handshake(host, this.session, wire, subprotocol, peer, this);
    this.#handshake = handshake;
    wire.listen(this);
    this.session.handleConnected(wire);
    if (refusal !== undefined) guard(this.session, () => handshake.refuse(refusal));
  }

  // --- events of the wire

  onData(size: number): void {
    this.#unfinishedBytes += size;
    this.#handshake?.guard.handleData();
    this.#together = 0;
    this.#target.handleRead?.();
    if (this.#unfinishedBytes <= UNTIMED_UNFINISHED || this.#isCutOff) return;
    guard(this.#target, () => {
      this.queue.enterReading(systemClock.now());
      if (this.#unfinishedBytes > (this.#unfinished?.charged ?? FREE_UNFINISHED)) this.#chargeUnfinished();
    });
  }

  #chargeUnfinished(): void {
    const { memory, longestMessage: longest } = this.#target;
    // Before ACCEPT the handshake has a bound of its own.
    if (longest === undefined) return;
    if (isOverlong(this.#unfinishedBytes, longest)) {
      const message = `a WebSocket message of more than ${longest} bytes`;
      this.#cutOff(new ProtocolError('message_too_large', message));
      // The session is no longer charged for these bytes, which are held until the connection is gone.
      terminateSoon(this.#wire);
      return;
    }
    this.#unfinished ??= new UnfinishedMessage(memory, this.#wire);
    this.#unfinished.grow();
  }

  #releaseUnfinished(): void {
    this.#unfinished?.release();
    this.#unfinished = undefined;
  }

  /** HELLO has come with the upgrade request, and counts as the first message. */
  handleEarlyHello(hello: Uint8Array): void {
    this.#handshake?.guard.handleEarlyHello(hello.length);
    this.onMessage(hello, hello.length);
  }

  onMessage(data: Uint8Array | string, size: number, isPart = false): void {
    this.#unfinishedBytes = 0;
    if (this.#unfinished !== undefined) this.#releaseUnfinished();
    const now = systemClock.now();
    if (this.queue.enter(now)) {
      const waits = isPart && ++this.#together < MAX_TOGETHER;
      if (!waits) this.#together = 0;
      this.#handle(data, size, now, waits);
    } else this.queue.push(() => this.#handle(data, size, systemClock.now(), false));
  }

  #handle(data: Uint8Array | string, size: number, now: number, isPart: boolean): void {
    if (this.#isCutOff) return;
    if (this.#handshake !== undefined) this.#handshake.firstMessage ??= data;
    try {
      const excess = this.#meter.handleMessage(size, systemClock.now);
      if (excess === undefined) this.#target.handleMessage(data, this.#wire, now, isPart);
      else this.#cutOff(excess);
    } catch (error) {
      this.#target.crash(error);
    }
  }

  onControl(): void {
    if (this.#isCutOff) return;
    guard(this.#target, () => {
      const excess = this.#meter.handleControl(systemClock.now());
      if (excess !== undefined) this.#cutOff(excess);
    });
  }

  onDrain(): void {
    guard(this.#target, () => this.#target.handleWritable());
  }

  onClose(code: number, reason: string): void {
    // Messages that arrived before the close are handled before it.
    if (this.queue.isEmpty) this.#handleClosed(code, reason);
    else this.queue.push(() => this.#handleClosed(code, reason));
  }

  #handleClosed(code: number, reason: string): void {
    this.#releaseUnfinished();
    guard(this.#target, () => this.#target.handleDisconnected(code, reason, this.#wire));
    this.#isClosed = true;
    this.#leaveLoop();
  }

  /** The session can outlive its connection, and the connection can carry another session. */
  #leaveLoop(): void {
    if (this.#isClosed && this.#isOver) this.queue.close();
  }

  onFault(error: unknown): void {
    this.#target.crash(error);
  }

  /** If another connection carries the session by now, only this connection ends. */
  #cutOff(error: ProtocolError): void {
    this.#isCutOff = true;
    if (this.#target.wire === this.#wire) this.#target.abort(error);
    else this.#wire.terminate();
  }

  // --- events of the handshake

  onAdmitted(): void {
    this.#isAdmitted = true;
  }

  onIdentified(principal: string | undefined): void {
    this.queue.assign(principal === undefined ? undefined : `principal ${principal}`);
  }

  onResumed(session: ServerEndpoint): void {
    this.#abandonOwn(session);
  }

  onLed(guide: Guide): void {
    this.#abandonOwn(guide);
    guide.onHandedOver = (session) => {
      // The memory of the guide is about to close, and what waits for it would wait for ever.
      this.#releaseUnfinished();
      this.#target = session;
    };
    this.host.onLed(this.session);
  }

  #abandonOwn(target: Target): void {
    this.#target = target;
    this.#endHandshake();
    // Its timers would close the connection, which it no longer has.
    this.session.abandon();
    this.#isOver = true;
  }

  #endHandshake(): void {
    this.#handshake?.end();
    this.#handshake = undefined;
  }

  // --- events of the session

  onHello({ hello }: { readonly hello: HelloPayload }): void {
    this.host.onHello(this.session);
    this.#handshake?.answer(hello).catch((error: unknown) => this.#target.crash(error));
  }

  onAuth(token: string): void {
    renew(this.session, token, this.host.options).catch((error: unknown) => this.#target.crash(error));
  }

  onReady(): void {
    this.#endHandshake();
    this.host.onReady(this.session);
  }

  onWireLost(): void {
    this.host.onWireLost(this.session);
  }

  onEnded(error: ProtocolError | undefined): void {
    const { session } = this;
    const { options } = this.host;
    const handshake = this.#handshake;
    this.#endHandshake();
    try {
      if (session.core.negotiated === undefined) handshake?.fail(error);
      if (this.#isAdmitted)
        this.host.release(addressKey(this.#ip), countedPrincipal(session.principal, options));
      warnOfEnd(error, session.id, options);
    } finally {
      this.host.onEnded(session, error);
      this.#isOver = true;
      this.#leaveLoop();
    }
  }
}
