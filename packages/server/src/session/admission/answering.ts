import {
  type Agreement,
  CloseCode,
  Extension,
  type HelloPayload,
  ProtocolError,
  ResumeRefusal,
  type SessionOptions,
  type Subprotocol,
} from '@parlance/protocol';
import {
  answerTo,
  createServerSession,
  guard,
  newSessionId,
  repeated,
  systemClock,
} from '@parlance/protocol/internal';
import { addressKey, memoryKeys } from '../../transport/http/addresses.js';
import { busy, type Refusal } from '../../transport/http/site.js';
import type { LoopQueue } from '../../transport/loop-queue.js';
import type { Transport } from '../../transport/transport.js';
import { SessionDriver } from '../driver.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { Admission } from '../hooks.js';
import type { SessionHost } from '../host.js';
import { clientInfo } from '../served-session.js';
import type { CheckedIdentity } from './admission.js';
import { countedPrincipal } from './authentication.js';
import { identifyPeer } from './identify.js';
import { warnOfKeys } from './keys.js';
import {
  type KnownPeer,
  type LookupResult,
  NOT_RESUMED,
  type ProxiedClient,
  type ProxyTarget,
  type Target,
} from './lookup.js';
import { keyOfNonce } from './nonces.js';
import { grant, type Origin } from './renewal.js';
import { resumable } from './resume.js';

/** Close codes of clients that a feature refuses for what they have sent. */
const CLIENTS_FAULT: ReadonlySet<CloseCode> = new Set([CloseCode.FORBIDDEN, CloseCode.BAD_FRAME]);

/** A connection that waits for the answer to its HELLO. */
export interface Waiting {
  readonly wire: Transport;
  readonly subprotocol: Subprotocol;
  readonly peer: KnownPeer;
  readonly queue: LoopQueue;
  /** It has its answer, or is gone. */
  readonly isOver: boolean;
  /** The credentials were wrong, or the handshake failed by the client's fault. */
  countFailure(): void;
  refuse(refusal: Refusal): void;
  abort(error: ProtocolError): void;
  close(code: number, reason: string): void;
  /**
   * `target` has the connection from now on.
   *
   * @param counted the principal for which its time counts.
   */
  handOver(target: Target | ProxyTarget, counted: string | undefined): void;
}

/** The client that is answered. */
interface Client {
  readonly identity: CheckedIdentity;
  readonly origin: Origin;
  /** The principal that quotas count. */
  readonly counted: string | undefined;
}

/** Answers one HELLO: with a new session, with one that is resumed here or proxied to another node, or with a refusal. */
export class Answering {
  readonly #host: SessionHost;
  readonly #to: Waiting;
  readonly #hello: HelloPayload;
  /** The bytes of HELLO. */
  readonly #bytes: Uint8Array | string;
  readonly #at = systemClock.now();
  /** Waits for the node that has the session. */
  #looking: AbortController | undefined;

  constructor(host: SessionHost, to: Waiting, hello: HelloPayload, bytes: Uint8Array | string) {
    this.#host = host;
    this.#to = to;
    this.#hello = hello;
    this.#bytes = bytes;
  }

  async run(): Promise<void> {
    const { proxied, identified } = this.#to.peer;
    if (proxied !== undefined) return this.#answerProxied(proxied);
    const { options, features } = this.#host;
    // A recorded session would be lost here if a server that has just begun looked at it too early.
    const loading = this.#host.untilLoaded(this.#hello);
    const isLoaded = loading === undefined || (await loading);
    if (this.#to.isOver) return;
    if (!isLoaded) return this.#to.refuse(NOT_LOADED);
    const { resume, agentId, auth } = this.#hello;
    const stated = { token: auth?.token, agentId };
    const known = identified ?? (await identifyPeer(this.#to.peer, stated, resume === undefined, this.#host));
    // The client may have left, or timed out, during authentication.
    if (this.#to.isOver) return;
    if (!('identity' in known)) return this.#to.refuse(known);
    const { identity, origin } = known;
    const client = { identity, origin, counted: countedPrincipal(identity.principal, options) };
    const found = await this.#resume(this.#hello, client);
    if (found === 'done') return;
    const sessionId = await this.#claim(client, found);
    if (sessionId === undefined) return;
    try {
      if (this.#to.isOver) return;
      const admitted = features.admit(this.#hello, identity, origin);
      if ('code' in admitted) {
        if (CLIENTS_FAULT.has(admitted.closeCode)) this.#to.countFailure();
        return this.#to.refuse(admitted);
      }
      this.#accept(client, sessionId, found, admitted);
    } finally {
      this.#settle(sessionId);
    }
  }

  /** The connection has its answer, or is gone. */
  stop(): void {
    this.#looking?.abort();
  }

  // --- a session that exists

  /** Resumes the session that `hello` names, here or where it is. Returns `done` if the client has its answer. */
  async #resume(hello: HelloPayload, client: Client): Promise<ResumeRefusal | 'done' | undefined> {
    const found = this.#resumeHere(hello, client);
    if (found !== UNKNOWN) return found;
    const outcome = (await this.#lookup(hello, client)) ?? found;
    if (outcome === 'here') return this.#resumeHere(hello, client);
    if (outcome === 'stale_attempt') this.#abortStale();
    else if (typeof outcome === 'object') this.#to.refuse(outcome);
    else if (!this.#to.isOver) return outcome;
    return 'done';
  }

  /** Resumes a session of this node, unless it may not be resumed. Returns `done` if the client has its answer. */
  #resumeHere(hello: HelloPayload, client: Client): ResumeRefusal | 'done' | undefined {
    if (this.#to.isOver) return 'done';
    // Nothing is awaited from this check to the resume, so no other connection can come in between.
    const found = resumable(hello, this.#to.subprotocol, client.identity, this.#host);
    if (found === undefined || (typeof found !== 'object' && found !== 'stale_attempt')) return found;
    if (found === 'stale_attempt') this.#abortStale();
    else this.#carryOn(found, hello, client);
    return 'done';
  }

  #abortStale(): undefined {
    this.#to.abort(new ProtocolError('stale_attempt', 'a newer attempt to resume was accepted'));
  }

  /** Leads the connection to the node that has its session. */
  #lookup(offer: HelloPayload, { identity, origin, counted }: Client): Promise<LookupResult> | undefined {
    const { resume } = offer;
    const { subprotocol, wire, peer } = this.#to;
    if (resume === undefined) return undefined;
    this.#looking = new AbortController();
    return this.#host.features.lookup({
      sessionId: resume.sessionId,
      hello: this.#bytes,
      offer,
      memoryKeys: memoryKeys(peer.ip, counted),
      signal: this.#looking.signal,
      ...{ subprotocol, identity, origin, wire },
      onProxied: (proxy) => {
        this.#looking = undefined;
        this.#to.handOver(proxy, counted);
      },
    });
  }

  /** Another node has authenticated the client, which may only resume the session that the ticket is for. */
  async #answerProxied(proxied: ProxiedClient): Promise<void> {
    const { options, nonces } = this.#host;
    const { identity, ip, headers, isForwarded, source, sessionId } = proxied;
    const { resume, agentId } = this.#hello;
    const isResumed = resume?.sessionId === sessionId;
    const again = isResumed ? undefined : nonces.of(sessionId);
    const hello = isResumed ? this.#hello : repeated(this.#hello, sessionId, resume && UNKNOWN);
    if (hello === undefined || !proxied.isFor(this.#bytes)) {
      const fields = { event: 'peer.refused', reason: 'other_hello', node: source };
      options.logger.warn(fields, 'another node has passed on a HELLO that its ticket is not for');
      return this.#to.abort(new ProtocolError('unauthenticated', 'the ticket is for another HELLO'));
    }
    if (again?.settled !== undefined) await again.settled;
    if (this.#to.isOver) return;
    const refused = this.#host.admitProxied();
    if (refused !== undefined) return this.#to.refuse(refused);
    const found = resumable(hello, this.#to.subprotocol, identity, this.#host);
    const isOver = found === UNKNOWN && again !== undefined && nonces.of(sessionId) === again;
    if (found === 'stale_attempt' || isOver) return this.#abortStale();
    // The client begins a new session at the node where it has arrived.
    if (typeof found !== 'object') return this.#to.close(NOT_RESUMED, found ?? ResumeRefusal.UNKNOWN_SESSION);
    const counted = countedPrincipal(identity.principal, options);
    this.#carryOn(found, hello, { identity, counted, origin: { ip, agentId, headers, isForwarded } }, source);
  }

  /** @param ledBy the node that passes the connection on. */
  #carryOn(
    found: ServerEndpoint,
    { resume }: HelloPayload,
    { identity, origin, counted }: Client,
    ledBy?: string,
  ): void {
    if (found.isFrozen) return this.#to.refuse(MOVING);
    if (resume === undefined) return;
    const { options } = this.#host;
    const { wire, peer } = this.#to;
    this.#to.handOver(found, counted);
    const { attempt, rebuild = false, again } = resume;
    if (again === undefined) this.#host.onResumed(found);
    found.handleResumed(wire, resume, clientInfo(peer.ip, origin.headers), ledBy);
    const fields = { ip: peer.ip, session: found.id };
    if (again !== undefined)
      options.logger.info(
        { event: 'session.repeated', ...fields },
        'HELLO has come again, and its session continues on this connection',
      );
    else
      options.logger.info(
        { event: rebuild ? 'session.taken_up' : 'session.resumed', ...fields, attempt },
        rebuild ? 'a page that was loaded again has taken its session up' : 'session resumed',
      );
    grant(found, identity, origin, options);
  }

  // --- a new session

  /**
   * Continues the session that the same HELLO has begun, if it has begun one.
   *
   * @param refusal why the session that HELLO names is not resumed.
   * @returns the ID of the session that may begin; `undefined` if the client has its answer.
   */
  async #claim(
    { identity, origin, counted }: Client,
    refusal: ResumeRefusal | undefined,
  ): Promise<string | undefined> {
    const { nonces, features, node, options } = this.#host;
    const { ip, identified } = this.#to.peer;
    const sessionId = newSessionId(node);
    const { nonce, extensions } = this.#hello;
    // Within the process HELLO comes once, and what is not resumed ends with its connection.
    if (nonce === undefined || identified !== undefined || extensions[Extension.RESUME] === undefined)
      return sessionId;
    const key = keyOfNonce(nonce, options.authenticate && [identity.principal, identity.agentId]);
    for (let over: string | undefined; ; ) {
      const known = nonces.get(key);
      let begun = known?.sessionId;
      if (known === undefined) {
        nonces.add(key, sessionId, memoryKeys(ip, counted), systemClock.now());
        begun = await features.begins(key, sessionId, over);
        if (begun === undefined || begun === sessionId) return sessionId;
        nonces.forget(sessionId);
      } else await known.settled;
      if (known !== nonces.get(key)) continue;
      const hello = repeated(this.#hello, begun as string, refusal) as HelloPayload;
      const found = await this.#resume(hello, { identity, origin, counted });
      if (found === 'done') return undefined;
      if (found === ResumeRefusal.OTHER_OFFER) return this.#abortOther();
      // It is over, and its client had learned of it.
      if (known !== undefined) return this.#abortStale();
      over = begun;
    }
  }

  #abortOther(): undefined {
    const message = 'HELLO has the nonce of another one, with another offer';
    this.#to.abort(new ProtocolError('protocol_violation', message, { closeCode: CloseCode.BAD_FRAME }));
  }

  /** It is known whether the session has begun, and whether another connection could resume it. */
  #settle(sessionId: string): void {
    const { nonces } = this.#host;
    if (this.#host.find(sessionId)?.core.resumeProof === undefined) nonces.forget(sessionId);
    else nonces.settle(sessionId);
  }

  /** @param refusal why the session that HELLO names is not resumed. */
  #accept(
    client: Client,
    sessionId: string,
    refusal: ResumeRefusal | undefined,
    { isDurable, accepted }: Required<Admission>,
  ): void {
    const host = this.#host;
    const { subprotocol, peer } = this.#to;
    const { identity, origin, counted } = client;
    const options = host.sessionOptions(subprotocol);
    const answer = answerTo(this.#hello, options, isDurable);
    const { outcome } = answer;
    if (!outcome.accepted) {
      this.#to.countFailure();
      return this.#to.refuse({ ...outcome.reject, closeCode: CloseCode.BAD_FRAME });
    }
    const address = addressKey(peer.ip);
    const refused = host.admit(address, counted);
    if (refused !== undefined) return this.#to.refuse(refused);
    let session: ServerEndpoint | undefined;
    try {
      session = this.#createSession(client, options);
    } finally {
      if (session === undefined) host.release(address, counted);
    }
    const begun = session;
    this.#to.handOver(begun, counted);
    host.onBegun(begun);
    // From here on the session ends of what is thrown, and releases what counts for it.
    guard(begun, () => {
      begun.begin(this.#to.wire, this.#hello, answer, this.#bytes.length);
      begun.core.accept(sessionId, systemClock.now(), { agentId: identity.agentId, refusal, isDurable });
      if (refusal !== undefined) this.#reportNotResumed(refusal);
      accepted(begun);
      this.#logAccepted(begun, outcome.agreement);
    });
    begun.pump();
    grant(begun, identity, origin, host.options);
  }

  #createSession({ identity, counted }: Client, options: SessionOptions): ServerEndpoint {
    const { peer, queue } = this.#to;
    const { principal, agentId, dataText } = identity;
    const driver = new SessionDriver(
      this.#host,
      createServerSession(options),
      {
        ...{ ip: peer.ip, counted, principal, agentId, data: dataText },
        isAnonymous: counted === undefined,
        client: clientInfo(peer.ip, peer.request.headers),
        since: Date.now(),
      },
      queue,
    );
    driver.isAdmitted = true;
    driver.session.helloAt = this.#at;
    return driver.session;
  }

  #logAccepted(session: ServerEndpoint, { algorithms, encoding }: Agreement): void {
    const { options } = this.#host;
    const { ip } = this.#to.peer;
    const fields = { event: 'session.accepted', ip, session: session.id, algorithms, encoding };
    options.logger.info(fields, 'session accepted');
    warnOfKeys(this.#hello.algorithms, session.id, options);
  }

  #reportNotResumed(reason: ResumeRefusal): void {
    const { resume } = this.#hello;
    if (resume !== undefined) this.#host.onNotResumed(resume.sessionId, reason);
    const { ip } = this.#to.peer;
    const fields = { event: 'session.not_resumed', ip, session: resume?.sessionId, reason };
    this.#host.options.logger.info(fields, 'the session cannot be resumed, and a new one begins');
  }
}

const UNKNOWN = ResumeRefusal.UNKNOWN_SESSION;

const NOT_LOADED = busy('the server could not load what it needs; its log says why', 1_000);
const MOVING = busy('the session is moving to another node', 250);
