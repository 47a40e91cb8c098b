import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import {
  CloseCode,
  createSession,
  type HelloPayload,
  type Limits,
  type Logger,
  ProtocolError,
  type RequestHandler,
  ResumeRefusal,
  type SessionCore,
  type SessionOptions,
  type Subprotocol,
} from '@parlance/protocol';
import {
  type Clock,
  type EndpointOptions,
  type EventRoute,
  guard,
  type MemoryBudget,
  newSessionId,
  type Reservation,
  systemClock,
} from '@parlance/protocol/internal';
import { bearerToken, type Identity, type Refusal, unauthenticated } from './admission/admission.js';
import { identify } from './admission/authentication.js';
import { HandshakeGuard } from './admission/handshake-guard.js';
import { RelayScan } from './agents/relay-scan.js';
import { Scanner } from './agents/scan.js';
import { ServerEndpoint } from './endpoint.js';
import { addressKey, isForwarded } from './http/addresses.js';
import { SocketMeter } from './http/socket-meter.js';
import type { ServerWire, WireEvents } from './http/ws.js';
import type { LoopAccount, LoopShares } from './loop-shares.js';
import type { ResolvedServerOptions } from './options.js';

/** What a connection needs of the server it belongs to. */
export interface ConnectionHost {
  readonly options: ResolvedServerOptions;
  /** What the cores of all sessions have in common. */
  sessionOptions(subprotocol: Subprotocol): SessionOptions;
  readonly onRequest: RequestHandler | undefined;
  /** What all sessions together hold. */
  readonly memory: MemoryBudget;
  /** The time of the event loop. */
  readonly loop: LoopShares;
  /** Asked before a session is accepted: draining, or too many of them. Counts the session it admits. */
  admit(address: string, principal: string | undefined): Refusal | undefined;
  /** The HELLO of a connection has come: it waits for the server from now on. */
  onHello(session: ServerEndpoint): void;
  /** Asked before `authenticate` runs: whether there is anything to be had from there. */
  checkAttempt(address: string, isNew: boolean): Refusal | undefined;
  /** Credentials from there were wrong, or a handshake failed by the client's fault. */
  onFailure(address: string): void;
  /** A session that was admitted is over. */
  release(address: string, principal: string | undefined): void;
  /** A session by its ID, connected or suspended. */
  find(sessionId: string): ServerEndpoint | undefined;
  /** Where the events go that are for other sessions; `undefined` where there are no agents. */
  routeOf(session: ServerEndpoint): EventRoute | undefined;
  /** Before ACCEPT: whether the session may be the agent that it has authenticated as. */
  claim(session: ServerEndpoint, hello: HelloPayload): Refusal | undefined;
  /** The session is established; its user may have it. */
  onReady(session: ServerEndpoint): void;
  /** The session has lost its connection and may be taken up on another one. */
  onWireLost(session: ServerEndpoint): void;
  /** The connection has taken up another session than its own. */
  onTakenUp(session: ServerEndpoint, own: ServerEndpoint): void;
  /** The client was told that it is not admitted. */
  onRefused(refusal: Refusal): void;
  /** The session is over. */
  onEnded(session: ServerEndpoint, error: ProtocolError | undefined): void;
}

/** Who is at the other end of a connection, before anybody knows who it is. */
export interface Peer {
  /** Behind the trusted proxies. */
  readonly ip: string;
  readonly request: IncomingMessage;
}

/** Kept of a connection for as long as its client may send new credentials. */
interface Origin {
  readonly ip: string;
  readonly agentId: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly isForwarded: boolean;
}

/**
 * Close codes of connections that end before ACCEPT by the client's own fault. One that has to go because there
 * are too many of its address is not to blame for the others.
 */
const FAULTS: ReadonlySet<number> = new Set([CloseCode.BAD_FRAME, CloseCode.TOO_LARGE, CloseCode.TIMEOUT]);
/** Bytes of a message that is not whole, beyond which the time to read it is its account's. */
const UNTIMED_UNFINISHED = 64 * 1024;
/** Bytes of a message that is not whole, which are not charged: most messages are smaller. */
const FREE_UNFINISHED = 320 * 1024;
/** Beyond them, so many are charged at a time. */
const UNFINISHED_STEP = 1024 * 1024;
/** No credit is ever given for more in one frame of a link. */
const MAX_LINK_FRAME = 4 * 1024 * 1024;
/** What is read of the messages behind one that is whole counts with it. */
const READ_AHEAD = 256 * 1024;
/** How long a client may take to close a connection on which it has said nothing, or too much. */
const LINGER_MS = 1_000;

/** Origins of the connections whose clients were authenticated, by the session that they carry. */
const renewable = new WeakMap<ServerEndpoint, Origin>();

/**
 * One accepted WebSocket connection: feeds its session, admits or refuses its HELLO.
 *
 * Every open connection has one of these, so that what all have in common is read from the server, and its
 * events are methods.
 */
export class Connection implements EndpointOptions, WireEvents {
  readonly role = 'server';
  readonly core: SessionCore;
  /** The session that began here; another connection may carry it on. */
  readonly session: ServerEndpoint;
  readonly #host: ConnectionHost;
  readonly #wire: ServerWire;
  readonly #subprotocol: Subprotocol;
  readonly #ip: string;
  readonly #meter: SocketMeter;
  /** The session that this connection feeds: its own, or the one that it has taken up. */
  #target: ServerEndpoint;
  /** The upgrade, until it has been judged: a session lives longer than its use. */
  #upgrade: IncomingMessage | undefined;
  #guard: HandshakeGuard | undefined;
  #isAdmitted = false;
  #hasHello = false;
  #isCutOff = false;
  /** Of its own, it is made with the first message: most sessions wait. */
  #account: LoopAccount | undefined;
  #accountKey: string | undefined;
  /** Bytes that have come since the last message, and up to which they are charged. */
  #unfinished = 0;
  #paid = FREE_UNFINISHED;
  #unfinishedMemory: Reservation[] | undefined;
  #awaitsMemory = false;
  /** Reasons for which the connection is not read. */
  #holds = 0;
  /** Messages that wait for time of the loop. */
  #queued = 0;
  #isClosed = false;
  /** The session that began here has ended, or never begun. */
  #isOver = false;

  /**
   * @param refusal a decision made at the upgrade, which the client is told in REJECT, because a browser
   * does not see an HTTP refusal.
   */
  constructor(
    host: ConnectionHost,
    wire: ServerWire,
    { ip, request }: Peer,
    subprotocol: Subprotocol,
    refusal: Refusal | undefined,
  ) {
    this.#host = host;
    this.#wire = wire;
    this.#subprotocol = subprotocol;
    this.#ip = ip;
    this.#upgrade = request;
    // Nobody knows whose it is, but only from where.
    this.#accountKey = `address ${addressKey(ip)}`;
    this.#account = host.loop.open(this.#accountKey);
    this.#meter = new SocketMeter(request.socket, host.options.limits);
    this.core = createSession(host.sessionOptions(subprotocol));
    this.session = new ServerEndpoint(this);
    this.#target = this.session;
    this.#guard = new HandshakeGuard(request, wire, this.session, host.options);
    wire.listen(this);
    this.session.handleConnected(wire);
    if (refusal !== undefined) guard(this.session, () => this.#refuse(refusal));
  }

  // --- what the session needs to know

  get clock(): Clock {
    return systemClock;
  }
  get limits(): Limits {
    return this.#host.options.limits;
  }
  get memory(): MemoryBudget {
    return this.#host.memory;
  }
  get maxAssembledSize(): number {
    return this.#host.options.maxAssembledSize;
  }
  get yield(): () => Promise<void> {
    return () => this.#time.next();
  }
  get takesMessages(): boolean {
    return this.#host.options.onSession !== undefined;
  }
  get onRequest(): RequestHandler | undefined {
    return this.#host.onRequest;
  }
  get batch(): EndpointOptions['batch'] {
    return this.#host.options.batch;
  }
  get security(): EndpointOptions['security'] {
    return this.#host.options.security;
  }
  get createScanner(): EndpointOptions['createScanner'] {
    const { scan, logger } = this.#host.options;
    return scan && ((host) => new Scanner(scan, host, logger));
  }
  get transfers(): EndpointOptions['transfers'] {
    return this.#host.options.transfers;
  }
  get logger(): Logger {
    return this.#host.options.logger;
  }
  get route(): EventRoute | undefined {
    const { session } = this;
    const route = this.#host.routeOf(session);
    const scanner = session.scanner as Scanner | undefined;
    return route && scanner ? new RelayScan(route, scanner, session) : route;
  }

  // --- what the wire reports

  onData(size: number): void {
    this.#unfinished += size;
    if (this.#unfinished <= UNTIMED_UNFINISHED || this.#isCutOff) return;
    guard(this.#target, () => {
      // To read is work as well: the loop would take two megabytes of each connection in one turn.
      if (this.#queued === 0 && !this.#time.enter(systemClock.now())) this.#queue(() => {});
      if (this.#unfinished > this.#paid) this.#payForUnfinished();
    });
  }

  /**
   * A message of which more and more comes without an end is charged as it comes, and its connection is not read while
   * there is no memory for more.
   */
  #payForUnfinished(): void {
    const target = this.#target;
    // Before ACCEPT the handshake has a bound of its own.
    if (target.core.negotiated === undefined) return;
    const { maxMessageSize } = this.#host.options.limits;
    const most = target.core.channel.hasLink ? Math.min(MAX_LINK_FRAME, maxMessageSize) : maxMessageSize;
    if (this.#unfinished > most + READ_AHEAD) {
      const message = `a WebSocket message of more than ${most} bytes`;
      this.#cutOff(new ProtocolError('message_too_large', message));
      // Its bytes are held until the connection is gone, and the session is charged for them no longer.
      setTimeout(() => this.#wire.terminate(), LINGER_MS).unref();
      return;
    }
    this.#paid += UNFINISHED_STEP;
    const { memory } = target;
    const reservation = memory.tryReserve(UNFINISHED_STEP);
    this.#unfinishedMemory ??= [];
    if (reservation !== undefined) {
      this.#unfinishedMemory.push(reservation);
      return;
    }
    this.#hold();
    this.#awaitsMemory = true;
    const goOn = () => this.#stopAwaiting();
    // Those who wait for each other give nothing back: now and then one goes on.
    const options = { now: systemClock.now(), begin: goOn, refuse: goOn };
    this.#unfinishedMemory.push(memory.queue(UNFINISHED_STEP, options));
  }

  onMessage(data: Uint8Array | string, size: number): void {
    this.#unfinished = 0;
    if (this.#paid > FREE_UNFINISHED) this.#releaseUnfinished();
    const now = systemClock.now();
    if (this.#time.enter(now) && this.#queued === 0) this.#handle(data, size, now);
    else this.#queue(() => this.#handle(data, size, systemClock.now()));
  }

  #handle(data: Uint8Array | string, size: number, now: number): void {
    if (this.#isCutOff) return;
    try {
      const excess = this.#meter.handleMessage(size, systemClock.now);
      if (excess === undefined) this.#target.handleMessage(data, this.#wire, now);
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
    // What has come before is handled before.
    if (this.#queued > 0) this.#queue(() => this.#handleClosed(code, reason));
    else this.#handleClosed(code, reason);
  }

  #stopAwaiting(): void {
    if (!this.#awaitsMemory) return;
    this.#awaitsMemory = false;
    this.#unhold();
  }

  #releaseUnfinished(): void {
    this.#stopAwaiting();
    this.#paid = FREE_UNFINISHED;
    for (const reservation of this.#unfinishedMemory ?? []) reservation.release();
    this.#unfinishedMemory = undefined;
  }

  #hold(): void {
    if (this.#holds++ === 0) this.#wire.hold(true);
  }
  #unhold(): void {
    if (--this.#holds === 0) this.#wire.hold(false);
  }

  #handleClosed(code: number, reason: string): void {
    this.#releaseUnfinished();
    guard(this.#target, () => this.#target.handleDisconnected(code, reason, this.#wire));
    this.#isClosed = true;
    this.#leaveLoop();
  }

  /** The loop has worked for this account for long enough: no more is read until what waits is handled. */
  #queue(task: () => void): void {
    if (this.#queued++ === 0) this.#hold();
    this.#time.push(() => {
      if (--this.#queued === 0) this.#unhold();
      task();
    });
  }

  /** Time of the loop is from now on that of `key`, of which there may be many connections. */
  #workFor(key: string | undefined): void {
    const { loop } = this.#host;
    this.#account = key === undefined ? undefined : loop.open(key);
    loop.close(this.#accountKey);
    this.#accountKey = key;
  }

  get #time(): LoopAccount {
    this.#account ??= this.#host.loop.open();
    return this.#account;
  }

  /** Its session may go on without the connection, and the connection with another session. */
  #leaveLoop(): void {
    if (!this.#isClosed || !this.#isOver) return;
    this.#host.loop.close(this.#accountKey);
    this.#accountKey = undefined;
  }
  onFault(error: unknown): void {
    this.#target.crash(error);
  }

  /** A session that another connection carries by now has nothing to do with what this one sends. */
  #cutOff(error: ProtocolError): void {
    this.#isCutOff = true;
    if (this.#target.wire === this.#wire) this.#target.abort(error);
    else this.#wire.terminate();
  }

  // --- what the session reports

  onHello({ hello }: { readonly hello: HelloPayload }): void {
    this.#hasHello = true;
    this.#host.onHello(this.session);
    this.#admit(hello).catch((error: unknown) => this.#target.crash(error));
  }
  onAuth(token: string): void {
    this.#renew(token).catch((error: unknown) => this.#target.crash(error));
  }
  onReady(): void {
    this.#endHandshake();
    this.#host.onReady(this.session);
  }
  onWireLost(): void {
    this.#host.onWireLost(this.session);
  }
  onEnded(error: ProtocolError | undefined): void {
    this.#endHandshake();
    const { session } = this;
    try {
      if (session.core.negotiated === undefined) this.#handleFailed(error);
      if (this.#isAdmitted)
        this.#host.release(addressKey(this.#ip), this.#countedPrincipal(session.principal));
    } finally {
      this.#host.onEnded(session, error);
      this.#isOver = true;
      this.#leaveLoop();
    }
  }

  // --- the handshake

  async #admit(hello: HelloPayload): Promise<void> {
    const address = addressKey(this.#ip);
    const limited = this.#host.checkAttempt(address, hello.resume === undefined);
    if (limited !== undefined) return this.#refuse(limited);
    const origin = originOf(this.#upgrade as IncomingMessage, this.#ip, hello.agentId);
    const token = hello.auth?.token ?? bearerToken(origin.headers);
    const identity = await this.#identify(token, origin);
    this.#upgrade = undefined;
    // A client that does not wait for the answer has failed all the same.
    if (identity === undefined) this.#host.onFailure(address);
    // The client may have gone, or timed out, while it was being looked up.
    if (this.core.state !== 'connecting') return;
    if (identity === undefined) {
      return this.#refuse(unauthenticated(token, this.#host.options.authenticate === undefined));
    }
    const outcome = this.#takeUp(hello, identity);
    if (outcome !== 'taken_up') {
      const refused = this.#host.admit(address, this.#countedPrincipal(identity.principal));
      if (refused !== undefined) return this.#refuse(refused);
      this.#isAdmitted = true;
      this.#accept(hello, identity, outcome);
    }
    this.#grant(identity, origin);
  }

  /** From the look-up to the takeover nothing waits, so no other connection can come in between. */
  #takeUp(hello: HelloPayload, identity: Identity): 'taken_up' | ResumeRefusal | undefined {
    const { resume } = hello;
    if (resume === undefined) return undefined;
    const found = this.#host.find(resume.sessionId);
    // Another principal's session does not exist for anybody else.
    if (found === undefined || !this.#isSamePrincipal(found, identity)) return ResumeRefusal.UNKNOWN_SESSION;
    const refused = found.core.checkResume(hello, this.#subprotocol);
    if (refused === 'stale_attempt') {
      this.session.abort(new ProtocolError('stale_attempt', 'a newer attempt to resume was accepted'));
      return 'taken_up';
    }
    if (refused !== undefined) return refused;
    this.#target = found;
    this.#endHandshake();
    // Its own timers would close the connection, which is no longer its own.
    this.session.abandon();
    this.#isOver = true;
    const counted = this.#countedPrincipal(identity.principal);
    this.#workFor(counted === undefined ? undefined : `principal ${counted}`);
    this.#host.onTakenUp(found, this.session);
    found.handleResumed(this.#wire, resume);
    this.logger.info(
      { event: 'session.resumed', ip: this.#ip, session: found.id, attempt: resume.attempt },
      'session taken up again',
    );
    return 'taken_up';
  }

  /** Without authentication each connection is somebody new, and the resume token says who it is. */
  #isSamePrincipal(found: ServerEndpoint, { principal, agentId }: Identity): boolean {
    if (this.#host.options.authenticate === undefined) return true;
    return found.principal === principal && found.agentId === agentId;
  }

  /** Nobody is counted as the principal that was made up for one connection. */
  #countedPrincipal(principal: string | undefined): string | undefined {
    return this.#host.options.authenticate === undefined ? undefined : principal;
  }

  #accept(hello: HelloPayload, identity: Identity, refusal: ResumeRefusal | undefined): void {
    const { core, session } = this;
    const { principal, agentId } = identity;
    session.principal = principal;
    session.agentId = agentId;
    const counted = this.#countedPrincipal(principal);
    const address = `address ${addressKey(this.#ip)}`;
    this.#workFor(counted === undefined ? undefined : `principal ${counted}`);
    session.memoryKeys = counted === undefined ? [address] : [address, `principal ${counted}`];
    const conflict = this.#host.claim(session, hello);
    if (conflict !== undefined) {
      this.#host.onFailure(addressKey(this.#ip));
      return this.#refuse(conflict);
    }
    const outcome = core.accept(newSessionId(), systemClock.now(), { agentId, refusal });
    if (outcome.accepted) {
      const { algorithms, encoding } = outcome.agreement;
      const fields = { event: 'session.accepted', ip: this.#ip, session: core.id, algorithms, encoding };
      this.logger.info(fields, 'session accepted');
    } else {
      const { code, message } = outcome.reject;
      this.logger.info({ event: 'session.refused', ip: this.#ip, code }, `refused: ${message}`);
      this.#host.onFailure(addressKey(this.#ip));
      this.#host.onRefused({ code, message, closeCode: CloseCode.BAD_FRAME });
    }
    session.pump();
  }

  #refuse(refusal: Refusal): void {
    const { code, message, closeCode, retryable, retryAfterMs } = refusal;
    this.logger.info({ event: 'session.refused', ip: this.#ip, code, closeCode }, `refused: ${message}`);
    this.#host.onRefused(refusal);
    this.core.reject({ code, message, retryable, retryAfterMs }, closeCode, systemClock.now());
    this.session.pump();
  }

  #endHandshake(): void {
    this.#guard?.stop();
    this.#guard = undefined;
  }

  /** The connection is over, or about to be, without a session. */
  #handleFailed(error: ProtocolError | undefined): void {
    // Refusals are counted where they are decided upon, and a decision that takes too long is the server's.
    const isOwnFault = FAULTS.has(error?.closeCode ?? 0) && !(this.#hasHello && error?.code === 'timeout');
    if (isOwnFault && error?.code !== 'rejected' && error?.side === 'local')
      this.#host.onFailure(addressKey(this.#ip));
    // A client that has said nothing is not waited for.
    if (!this.#hasHello) setTimeout(() => this.#wire.terminate(), LINGER_MS).unref();
  }

  // --- credentials that end

  /** Tells the client until when its credentials are good, and is ready for those that follow. */
  #grant({ expiresAt }: Identity, origin: Origin): void {
    const target = this.#target;
    if (target.hasEnded) return;
    if (this.#host.options.authenticate !== undefined) renewable.set(target, origin);
    if (expiresAt !== undefined) target.grant(Math.floor(expiresAt));
  }

  async #renew(token: string): Promise<void> {
    const { session, logger } = this;
    const origin = renewable.get(session);
    // Without `authenticate` any credentials are as good as others.
    if (origin === undefined) return session.grant(null);
    const identity = await this.#identify(token, origin);
    if (session.hasEnded) return;
    const isSame = identity?.principal === session.principal && identity?.agentId === session.agentId;
    if (identity === undefined || !isSame) {
      const why = identity === undefined ? 'were refused' : 'are those of somebody else';
      logger.warn({ event: 'auth.refused', ip: origin.ip, session: session.id }, `new credentials ${why}`);
      session.abort(new ProtocolError('unauthenticated', `the new credentials ${why}`));
      return;
    }
    logger.debug({ event: 'auth.renewed', session: session.id }, 'credentials renewed');
    session.grant(identity.expiresAt === undefined ? null : Math.floor(identity.expiresAt));
  }

  async #identify(token: string | undefined, origin: Origin): Promise<Identity | undefined> {
    const { ip, agentId, headers, isForwarded } = origin;
    const { authenticate, logger } = this.#host.options;
    return await identify({ token, origin: headers.origin, agentId, ip, headers }, isForwarded, {
      authenticate,
      logger,
      now: Date.now,
    });
  }
}

function originOf(upgrade: IncomingMessage, ip: string, agentId: string | undefined): Origin {
  return { ip, agentId, headers: upgrade.headers, isForwarded: isForwarded(upgrade) };
}
