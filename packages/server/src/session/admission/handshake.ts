import type { IncomingMessage } from 'node:http';
import {
  type AcceptOptions,
  CloseCode,
  type HelloPayload,
  ProtocolError,
  ResumeRefusal,
  type Subprotocol,
} from '@parlance/protocol';
import { loggable, newSessionId, systemClock, waitFrame } from '@parlance/protocol/internal';
import { addressKey, memoryKeys } from '../../transport/http/addresses.js';
import { bearerToken, type Refusal } from '../../transport/http/site.js';
import { type Transport, terminateSoon } from '../../transport/transport.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { ServerObserver } from '../observer.js';
import type { ServingOptions } from '../options.js';
import type { SessionParts } from '../parts.js';
import { clientInfo } from '../served-session.js';
import { type CheckedIdentity, UNCHECKED, unauthenticated } from './admission.js';
import { countedPrincipal } from './authentication.js';
import { HandshakeGuard } from './handshake-guard.js';
import { warnOfKeys } from './keys.js';
import type { Quotas } from './quotas.js';
import { grant, identifyOrigin, type Origin, originOf } from './renewal.js';
import { resumable } from './resume.js';
import { type Guide, NOT_RESUMED, type Passed, type PassedPeer, type Sought } from './seek.js';

/** What a handshake needs from its server. */
export interface HandshakeHost {
  readonly options: ServingOptions;
  /** Refuse an address with too many failures or new sessions before `authenticate` runs. */
  readonly quotas: Quotas;
  /** Resolves with whether everything is loaded that any session may need; `undefined` if it is. */
  untilLoaded(): Promise<boolean> | undefined;
  /** Asked before a session is accepted: refuses while draining, or beyond a quota. Counts the session it admits. */
  admit(address: string, principal: string | undefined): Refusal | undefined;
  readonly parts: SessionParts;
  /** Names the server in the IDs of its sessions. */
  readonly node: string;
  /** Refuses, while the server closes, a connection that another node passes on. */
  admitLed(): Refusal | undefined;
  /** A session by its ID, connected or suspended. */
  find(sessionId: string): ServerEndpoint | undefined;
  /** The connection resumes `session` in place of its own. */
  onResumed(session: ServerEndpoint, own: ServerEndpoint): void;
  /** A client is given a new session in place of the one that it wants to resume. */
  onNotResumed(sessionId: string, reason: ResumeRefusal): void;
  /** `undefined` without metrics. */
  readonly observer: ServerObserver | undefined;
}

/** What a handshake reports to its connection. */
export interface HandshakeEvents {
  /** The session counts from now on. */
  onAdmitted(): void;
  /** @param principal `undefined` without authentication. */
  onIdentified(principal: string | undefined): void;
  /** The connection carries `session` from now on, and its own session is abandoned. */
  onResumed(session: ServerEndpoint): void;
  /** The connection carries a session of another node from now on, and its own session is abandoned. */
  onLed(guide: Guide): void;
}

/** Milliseconds after which a client is told that its answer takes time. */
const WAIT_AFTER_MS = 2_000;

/**
 * Close codes of handshakes that fail by the client's fault. A connection that is closed because its address has too
 * many is not among them: others of that address may have opened them.
 */
const FAULTS: ReadonlySet<number> = new Set([CloseCode.BAD_FRAME, CloseCode.TOO_LARGE, CloseCode.TIMEOUT]);

/**
 * The handshake of one connection: answers its HELLO by accepting the connection's own session, resuming another one
 * or refusing. The connection drops it with the answer.
 */
export class Handshake {
  readonly #host: HandshakeHost;
  readonly #session: ServerEndpoint;
  readonly #wire: Transport;
  readonly #subprotocol: Subprotocol;
  readonly #ip: string;
  readonly #upgrade: IncomingMessage;
  readonly #events: HandshakeEvents;
  /** Hears of the bytes that are read from the socket. */
  readonly guard: HandshakeGuard;
  readonly #passed: Passed | undefined;
  /** The bytes of HELLO. */
  firstMessage: Uint8Array | string | undefined;
  #hasHello = false;
  #delayed: NodeJS.Timeout | undefined;
  /** Waits for the node that has the session. */
  #leading: AbortController | undefined;

  constructor(
    host: HandshakeHost,
    session: ServerEndpoint,
    wire: Transport,
    subprotocol: Subprotocol,
    { ip, request, passed }: PassedPeer,
    events: HandshakeEvents,
  ) {
    this.#host = host;
    this.#session = session;
    this.#wire = wire;
    this.#subprotocol = subprotocol;
    this.#ip = ip;
    this.#upgrade = request;
    this.#passed = passed;
    this.#events = events;
    this.guard = new HandshakeGuard(wire, session, host.options);
  }

  async answer(hello: HelloPayload): Promise<void> {
    this.#hasHello = true;
    if (this.#passed !== undefined) return this.#answerPassed(hello, this.#passed);
    const { options, parts } = this.#host;
    const loading = this.#host.untilLoaded();
    if (options.authenticate !== undefined || loading !== undefined)
      this.#delayed = setTimeout(() => this.#sayWait(), WAIT_AFTER_MS);
    // A session on record would be lost here if a server that has just begun looked at it too early.
    const isLoaded = loading === undefined || (await loading);
    if (this.#session.core.state !== 'connecting') return;
    if (!isLoaded) return this.refuse(NOT_LOADED);
    const address = addressKey(this.#ip);
    const limited = this.#host.quotas.checkAttempt(address, hello.resume === undefined, systemClock.now());
    if (limited !== undefined) return this.refuse(limited);
    const origin = originOf(this.#upgrade, this.#ip, hello.agentId);
    const token = hello.auth?.token ?? bearerToken(origin.headers);
    const identity = await identifyOrigin(token, origin, options);
    // The attempt counts as failed even if the client did not wait for the answer.
    if (identity === undefined || typeof identity === 'string') this.#countFailure();
    // The client may have left, or timed out, during authentication.
    if (this.#session.core.state !== 'connecting') return;
    if (typeof identity === 'string') return this.refuse(UNCHECKED[identity]);
    if (identity === undefined)
      return this.refuse(unauthenticated(token, options.authenticate === undefined));
    const principal = countedPrincipal(identity.principal, options);
    let found = this.#resumeHere(hello, identity, origin);
    if (found === ResumeRefusal.UNKNOWN_SESSION) {
      const outcome = (await this.#seek(hello, identity, origin)) ?? found;
      if (outcome === 'done' || this.#session.core.state !== 'connecting') return;
      if (outcome === 'stale_attempt') return this.#abortStale();
      if (typeof outcome === 'object') return this.refuse(outcome);
      found = outcome === 'here' ? this.#resumeHere(hello, identity, origin) : outcome;
    }
    if (found === 'done') return;
    const isDurable = parts.records(hello, identity, origin);
    if (typeof isDurable === 'object') return this.refuse(isDurable);
    const refused = this.#host.admit(address, principal);
    if (refused !== undefined) return this.refuse(refused);
    this.#events.onAdmitted();
    this.#accept(hello, identity, principal, { refusal: found, isDurable });
    grant(this.#session, identity, origin, options);
  }

  /** A client that has heard nothing for 5 s takes the server for something else. */
  #sayWait(): void {
    if (this.#session.core.state !== 'connecting') return;
    this.#wire.send(waitFrame(this.#subprotocol, Date.now()));
  }

  /** Resumes a session of this node, unless it may not be resumed. Returns `done` if the client has its answer. */
  #resumeHere(
    hello: HelloPayload,
    identity: CheckedIdentity,
    origin: Origin,
  ): ResumeRefusal | 'done' | undefined {
    const { options } = this.#host;
    // Nothing is awaited from this check to the resume, so no other connection can come in between.
    const found = resumable(hello, this.#subprotocol, identity, this.#host);
    if (found === undefined || (typeof found !== 'object' && found !== 'stale_attempt')) return found;
    if (found === 'stale_attempt') this.#abortStale();
    else if (found.isFrozen) this.refuse(MOVING);
    else {
      this.#resume(found, hello, countedPrincipal(identity.principal, options), origin.headers);
      grant(found, identity, origin, options);
    }
    return 'done';
  }

  #abortStale(): void {
    this.#session.abort(new ProtocolError('stale_attempt', 'a newer attempt to resume was accepted'));
  }

  /** Leads the connection to the node that has its session. */
  #seek(offer: HelloPayload, identity: CheckedIdentity, origin: Origin): Promise<Sought> | undefined {
    const { resume } = offer;
    const hello = this.firstMessage;
    if (resume === undefined || hello === undefined) return undefined;
    const principal = countedPrincipal(identity.principal, this.#host.options);
    this.#leading = new AbortController();
    return this.#host.parts.seek({
      sessionId: resume.sessionId,
      hello,
      offer,
      subprotocol: this.#subprotocol,
      identity,
      memoryKeys: memoryKeys(this.#ip, principal),
      origin,
      wire: this.#wire,
      signal: this.#leading.signal,
      onLed: (guide) => {
        this.#leading = undefined;
        this.#events.onIdentified(principal);
        this.#events.onLed(guide);
      },
    });
  }

  /** Another node has authenticated the client, which may only resume the session that the ticket is for. */
  #answerPassed(hello: HelloPayload, passed: Passed): void {
    const { options } = this.#host;
    const { identity, ip, headers, isForwarded, source, sessionId } = passed;
    if (hello.resume?.sessionId !== sessionId || !passed.isFor(this.firstMessage ?? '')) {
      const fields = { event: 'peer.refused', reason: 'other_hello', node: source };
      options.logger.warn(fields, 'another node has passed on a HELLO that its ticket is not for');
      return this.#session.abort(new ProtocolError('unauthenticated', 'the ticket is for another HELLO'));
    }
    const refused = this.#host.admitLed();
    if (refused !== undefined) return this.refuse(refused);
    const found = resumable(hello, this.#subprotocol, identity, this.#host);
    if (found === 'stale_attempt') return this.#abortStale();
    // The client begins a new session at the node where it has arrived.
    if (typeof found !== 'object')
      return this.#wire.close(NOT_RESUMED, found ?? ResumeRefusal.UNKNOWN_SESSION);
    if (found.isFrozen) return this.refuse(MOVING);
    this.#resume(found, hello, countedPrincipal(identity.principal, options), headers, source);
    grant(found, identity, { ip, agentId: hello.agentId, headers, isForwarded }, options);
  }

  /** @param ledBy the node that passes the connection on. */
  #resume(
    found: ServerEndpoint,
    { resume }: HelloPayload,
    principal: string | undefined,
    headers: Origin['headers'],
    ledBy?: string,
  ): void {
    if (resume === undefined) return;
    this.#events.onResumed(found);
    this.#events.onIdentified(principal);
    this.#host.onResumed(found, this.#session);
    found.handleResumed(this.#wire, resume, clientInfo(this.#ip, headers), ledBy);
    const { attempt, rebuild = false } = resume;
    const event = rebuild ? 'session.taken_up' : 'session.resumed';
    this.#host.options.logger.info(
      { event, ip: this.#ip, session: found.id, attempt },
      rebuild ? 'a page that was loaded again has taken its session up' : 'session resumed',
    );
  }

  #reportNotResumed({ resume }: HelloPayload, reason: ResumeRefusal): void {
    if (resume !== undefined) this.#host.onNotResumed(resume.sessionId, reason);
    const fields = { event: 'session.not_resumed', ip: this.#ip, session: resume?.sessionId, reason };
    this.#host.options.logger.info(fields, 'the session cannot be resumed, and a new one begins');
  }

  /** @param how why the session that HELLO names is not resumed, and whether the session is put on record. */
  #accept(
    hello: HelloPayload,
    { principal, agentId, dataText }: CheckedIdentity,
    counted: string | undefined,
    how: Pick<AcceptOptions, 'refusal' | 'isDurable'>,
  ): void {
    const session = this.#session;
    const { logger } = this.#host.options;
    session.principal = principal;
    session.agentId = agentId;
    session.dataText = dataText;
    session.client = clientInfo(this.#ip, this.#upgrade.headers);
    session.since = Date.now();
    session.isAnonymous = counted === undefined;
    this.#events.onIdentified(counted);
    const conflict = this.#host.parts.claim(session, hello);
    if (conflict !== undefined) {
      this.#countFailure();
      return this.refuse(conflict);
    }
    const { core } = session;
    const outcome = core.accept(newSessionId(this.#host.node), systemClock.now(), {
      agentId,
      ...how,
    });
    if (outcome.accepted) {
      if (how.refusal !== undefined) this.#reportNotResumed(hello, how.refusal);
      this.#host.parts.accepted(session, hello.resume);
      const { algorithms, encoding } = outcome.agreement;
      const fields = { event: 'session.accepted', ip: this.#ip, session: core.id, algorithms, encoding };
      logger.info(fields, 'session accepted');
      warnOfKeys(hello.algorithms, session.id, this.#host.options);
    } else {
      const { code, message } = outcome.reject;
      logger.info({ event: 'session.refused', ip: this.#ip, code }, `refused: ${message}`);
      this.#countFailure();
      this.#host.observer?.handleRefused({ code, message, closeCode: CloseCode.BAD_FRAME });
    }
    session.pump();
  }

  /** The credentials were wrong, or the handshake failed by the client's fault. */
  #countFailure(): void {
    this.#host.quotas.fail(addressKey(this.#ip), systemClock.now());
  }

  refuse(refusal: Refusal): void {
    const { code, message, closeCode, retryable, retryAfterMs } = refusal;
    const { options } = this.#host;
    const fields = { event: 'session.refused', ip: this.#ip, code, closeCode };
    // A page shows its user nothing of it, unless its author has thought of that.
    if (isNew(refusal, options)) {
      const err = loggable(new ProtocolError('forbidden', message, { closeCode }));
      options.logger.warn({ ...fields, err }, `refused, said once: ${message}`);
    } else options.logger.info(fields, `refused: ${message}`);
    this.#host.observer?.handleRefused(refusal);
    const { core } = this.#session;
    core.reject({ code, message, retryable, retryAfterMs }, closeCode, systemClock.now());
    this.#session.pump();
  }

  /** The handshake is over: the connection may send more than a HELLO. */
  end(): void {
    clearTimeout(this.#delayed);
    this.#leading?.abort();
    this.guard.end();
  }

  /** The connection ends, or is about to, without a session. */
  fail(error: ProtocolError | undefined): void {
    // Refusals are counted where they are decided, and an answer that takes too long is the server's fault.
    const isFault = this.#passed === undefined && FAULTS.has(error?.closeCode ?? 0);
    const isOwnFault = isFault && !(this.#hasHello && error?.code === 'timeout');
    if (isOwnFault && error?.code !== 'rejected' && error?.side === 'local') this.#countFailure();
    // A client that has sent nothing gets no time for a closing handshake.
    if (!this.#hasHello) terminateSoon(this.#wire);
  }
}

const NOT_LOADED: Refusal = {
  code: 'SERVER_BUSY',
  message: 'the server could not load what it needs; its log says why',
  closeCode: CloseCode.DRAINING,
  retryable: true,
  retryAfterMs: 1_000,
};

/** The session is about to go on at another node. */
const MOVING: Refusal = {
  code: 'SERVER_BUSY',
  message: 'the session is moving to another node',
  closeCode: CloseCode.DRAINING,
  retryable: true,
  retryAfterMs: 250,
};

/** What each server has warned of: origins that are not listed, missing credentials. */
const told = new WeakMap<object, Set<string>>();
/** Warnings of one server. A peer can make up as many origins as it likes. */
const MAX_TOLD = 20;

/** Whether to warn of a refusal that the options of the server or of its pages cause, once. */
function isNew({ closeCode, message }: Refusal, server: object): boolean {
  if (closeCode !== CloseCode.FORBIDDEN && closeCode !== CloseCode.UNAUTHENTICATED) return false;
  const seen = told.get(server) ?? new Set();
  told.set(server, seen);
  if (seen.has(message) || seen.size >= MAX_TOLD) return false;
  seen.add(message);
  return true;
}
