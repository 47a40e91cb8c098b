import {
  CloseReason,
  type HelloPayload,
  ProtocolError,
  type RequestHandler,
  type ResumeRefusal,
  type SessionOptions,
  type Subprotocol,
} from '@parlance/protocol';
import {
  createSweep,
  guard,
  MemoryBudget,
  sweepInterval,
  systemClock,
  type Traffic,
  unanswered,
} from '@parlance/protocol/internal';
import { loadCapabilities } from '../base/load-codecs.js';
import { createLoopShares } from '../base/loop-shares.js';
import { Vocabularies } from '../base/vocabularies.js';
import type { KnownPeer } from '../session/admission/lookup.js';
import { Nonces } from '../session/admission/nonces.js';
import { OtherProcesses } from '../session/admission/other-processes.js';
import { Connection } from '../session/connection.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { SessionHost, Unanswered } from '../session/host.js';
import type { ServerObserver } from '../session/observer.js';
import { startOnSession } from '../session/on-session.js';
import type { ServerSession } from '../session/served-session.js';
import { Visitors } from '../session/visitors.js';
import { addressKey } from '../transport/http/addresses.js';
import { Door } from '../transport/http/door.js';
import { Handshakes, MAX_HANDSHAKES, MAX_PROXIED } from '../transport/http/handshakes.js';
import type { Refusal } from '../transport/http/site.js';
import type { Transport } from '../transport/transport.js';
import { type Drain, returnDelay, sendAway } from './drain.js';
import { type CloseServerOptions, endsSessions } from './drain-options.js';
import type { InstalledFeatures } from './features/installed-features.js';
import { METER, NODE, type ThisNode } from './features/own-feature.js';
import type { ResolvedServerOptions } from './options.js';
import { ServerAdmission } from './server-admission.js';
import { OfferedOptions } from './session-options.js';

/** The sessions of a server, from the connections on which they begin until they are over here. */
export class Sessions extends ServerAdmission implements SessionHost {
  readonly options: ResolvedServerOptions;
  readonly features: InstalledFeatures;
  readonly onRequest: RequestHandler;
  readonly memory: MemoryBudget;
  readonly nonces: Nonces;
  readonly loop;
  readonly vocabularies: Vocabularies;
  /** Those that were established and have not ended, by ID. */
  readonly established = new Map<string, ServerEndpoint>();
  /** The same, as the application has them. */
  readonly served = new Map<string, ServerSession>();
  /** Those that are here, established or about to be. */
  readonly connections = new Set<ServerEndpoint>();
  /** Bytes on connections that got no session. */
  readonly unserved = { sent: 0, received: 0 };
  /** Each request that opens a connection passes it. */
  readonly door: Door;
  readonly visitors: Visitors;
  /** Connections without a session yet. */
  readonly greetings: Handshakes<Unanswered>;
  drain: Drain | undefined;
  readonly #offered: OfferedOptions;
  readonly #untilLoaded: () => Promise<boolean> | undefined;
  readonly #sweep;
  readonly #meter;
  readonly #otherProcesses: OtherProcesses;

  /**
   * @param equip installs the features of the server.
   * @param untilLoaded resolves with whether all is loaded; `undefined` if it is.
   */
  constructor(
    options: ResolvedServerOptions,
    equip: (sessions: Sessions) => InstalledFeatures,
    untilLoaded: () => Promise<boolean> | undefined,
  ) {
    const { limits, timers, onRequest } = options;
    super(limits);
    this.options = options;
    this.#untilLoaded = untilLoaded;
    this.memory = new MemoryBudget(options.processMemory);
    this.nonces = new Nonces(this.memory, options.logger);
    this.loop = createLoopShares(options.loopShare);
    this.greetings = new Handshakes(limits.handshakesPerIp, MAX_HANDSHAKES);
    this.door = new Door({
      options,
      connect: (address) => this.connect(address),
      retryElsewhere: () => (this.features.isElsewhere ? this.admitAny()?.retryAfterMs : undefined),
    });
    this.visitors = new Visitors(this, this.door);
    this.features = equip(this);
    this.onRequest = this.features.wrap(onRequest ?? unanswered);
    this.#offered = new OfferedOptions(options, this.features);
    this.vocabularies = new Vocabularies(this.#offered.capabilities.encodings, options.logger);
    this.#meter = this.features.use(METER);
    this.#otherProcesses = new OtherProcesses(options.logger, this.node);
    this.#sweep = createSweep(sweepInterval(timers));
  }

  /**
   * Loads the codecs and vocabularies that sessions may agree on. With an engine, recorded sessions may need each
   * vocabulary at once.
   */
  async load(): Promise<void> {
    const { capabilities } = this.#offered;
    const [loaded] = await Promise.all([
      loadCapabilities(capabilities, this.options.logger),
      this.vocabularies.prepare(this.options.engine !== undefined),
    ]);
    if (loaded !== capabilities) this.#offered.offer(loaded);
  }

  /** No other one begins. Returns whether all of them end for good. @throws {ProtocolError} `invalid_option`. */
  beginClosing(options: CloseServerOptions): boolean {
    const isFinal = endsSessions(options);
    this.isClosing = true;
    return isFinal;
  }

  /**
   * Resolves when all are closed, or suspended for another server.
   *
   * @param isFinal their clients do not come back.
   */
  async closeAll(isFinal: boolean): Promise<void> {
    const close = () => {
      for (const greeting of this.greetings) greeting.abort(closing());
      return Promise.all([...this.connections].map((session) => this.#close(session, isFinal)));
    };
    // A feature that leaves gives sessions up for another process.
    if (isFinal) await close();
    await this.features.leave();
    await close();
  }

  async #close(session: ServerEndpoint, isFinal: boolean): Promise<void> {
    // A client that waits for its session to be resumed would take another close code for the end of it.
    if (isFinal && !session.hasWire) session.abort(closing());
    else if (!session.hasWire) this.onWireLost(session);
    // A client that a drain has asked to leave comes back unless CLOSE has a code.
    else if (isFinal)
      await session.shutdown(
        CloseReason.SERVER_SHUTDOWN,
        'the server closes',
        this.isDraining ? CLOSED_FOR_GOOD : undefined,
      );
    else await sendAway(session, { retryAfterMs: returnDelay(this.returnWithinMs), deadline: Date.now() });
  }

  /** Stops the repeated sweep. */
  stop(): void {
    this.#sweep.stop();
  }

  /** @param hello has come with the upgrade request. */
  begin(
    wire: Transport,
    peer: KnownPeer,
    subprotocol: Subprotocol,
    refusal: Refusal | undefined,
    hello?: Uint8Array,
  ): void {
    new Connection(this, wire, peer, subprotocol, refusal, hello);
  }

  onConnected(greeting: Unanswered, { ip, proxied }: KnownPeer): void {
    this.#sweep.add(greeting);
    const [key, most] = proxied === undefined ? [addressKey(ip)] : ['other nodes', MAX_PROXIED];
    const evicted = this.greetings.add(greeting, key, most);
    if (evicted === undefined) return;
    this.observer?.handleLimited('handshakesPerIp');
    evicted.abort(new ProtocolError('rate_limited', 'too many handshakes at a time from this address'));
  }

  // --- as the host of connections

  get observer(): ServerObserver | undefined {
    return this.#meter?.observer;
  }

  /** Names this server in the IDs of its sessions. */
  get node(): string {
    return (this.features.use(NODE) as ThisNode).incarnation;
  }

  onNotResumed(sessionId: string, reason: ResumeRefusal): void {
    this.observer?.handleNotResumed(reason);
    const { engine } = this.options;
    // An engine with a secret is that of one process.
    if (engine === undefined || engine.secret !== undefined) this.#otherProcesses.handle(sessionId, reason);
  }

  protected get isDraining(): boolean {
    return this.drain !== undefined;
  }

  untilLoaded(hello: HelloPayload): Promise<boolean> | undefined {
    const loads = [this.#untilLoaded(), this.vocabularies.need(hello)];
    if (loads.every((load) => load === undefined)) return undefined;
    return Promise.all(loads).then((areLoaded) => !areLoaded.includes(false));
  }

  sessionOptions(subprotocol: Subprotocol): SessionOptions {
    return this.#offered.of(subprotocol);
  }

  find(sessionId: string): ServerEndpoint | undefined {
    return this.established.get(sessionId);
  }

  onHello(greeting: Unanswered): void {
    this.greetings.handleHello(greeting);
  }

  onGreeted(greeting: Unanswered, unserved: Traffic | undefined): void {
    this.greetings.delete(greeting);
    this.#sweep.delete(greeting);
    this.unserved.sent += unserved?.sent ?? 0;
    this.unserved.received += unserved?.received ?? 0;
  }

  onBegun(session: ServerEndpoint): void {
    this.connections.add(session);
    this.#sweep.add(session);
  }

  onReady(session: ServerEndpoint): void {
    this.#establish(session, () => this.features.ready(session));
  }

  onRestored(session: ServerEndpoint, join: () => void): void {
    this.onBegun(session);
    this.#establish(session, join);
  }

  #establish(session: ServerEndpoint, join: () => void): void {
    this.established.set(session.id, session);
    this.served.set(session.id, session.session);
    guard(session, join);
    this.options.prepare();
    if (!session.hasEnded) this.run(session);
  }

  run(session: ServerEndpoint): void {
    const { onSession, logger } = this.options;
    if (onSession !== undefined) startOnSession(session, onSession, logger);
  }

  onWireLost(session: ServerEndpoint): void {
    session.lostAt = systemClock.now();
    // No client can resume on a server that accepts no more connections.
    if (this.isClosing && !session.isDurable) session.abort(closing());
    else this.drain?.handleLost(session);
  }

  onResumed(session: ServerEndpoint): void {
    this.features.resumed(session);
  }

  onEnded(session: ServerEndpoint, error: ProtocolError | undefined): void {
    this.connections.delete(session);
    this.#sweep.delete(session);
    this.features.ended(session, error);
    // Another node has it, or its client never learned of it and so has lost nothing.
    const isUnseen = error !== undefined && session.core.resumeProof?.isUnseen === true;
    if (session.hasMoved || isUnseen) this.nonces.forget(session.id);
    if (this.established.get(session.id) !== session) return;
    this.established.delete(session.id);
    this.served.delete(session.id);
    const head = { event: 'session.ended', session: session.id, reason: session.endOf(error) };
    // The reason of the other end may quote anything.
    const why = error?.side === 'local' && { why: error.message };
    const { unknownMessages } = session.core;
    const fields = { ...head, ...why, ...(unknownMessages > 0 && { unknownMessages }) };
    this.options.logger.info(fields, 'session ended');
    this.drain?.handleEnded();
  }
}

const CLOSED_FOR_GOOD = 'server_closed';

export const closing = (): ProtocolError => new ProtocolError('draining', 'the server closes');
