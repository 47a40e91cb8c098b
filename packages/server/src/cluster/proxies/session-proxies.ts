import type { TlsOptions } from 'node:tls';
import { CloseCode, type Logger, ResumeRefusal } from '@parlance/protocol';
import { incarnationOf } from '@parlance/protocol/internal';
import type { LookupQuery, LookupResult } from '../../session/admission/lookup.js';
import { NO_NODE } from '../../session/durable-rules.js';
import type { SessionHost } from '../../session/host.js';
import { addressKey } from '../../transport/http/addresses.js';
import { busy, type Refusal } from '../../transport/http/site.js';
import type { Transport } from '../../transport/transport.js';
import type { WebSocketAdapterOptions } from '../../transport/websocket/ws.js';
import { clientSide } from '../client-side.js';
import type { DurableSessions } from '../durable-sessions.js';
import type { KnownNode, Membership } from '../membership.js';
import type { Moves } from '../moves/moves.js';
import { PEER_PATH, TICKET_SCHEME } from '../peer-port.js';
import { digestOf, type Tickets } from '../ticket.js';
import { type Answer, ask } from './ask.js';
import { SessionProxy } from './session-proxy.js';

/** How often a session may have moved while it is looked for. */
const MAX_HOPS = 3;
/** How long a node may take to answer that drains, and so has all its clients come back at once, in milliseconds. */
const DRAINING_TIMEOUT_MS = 3_000;
/** A client that must try again, in milliseconds. */
const RETRY_MS = 250;
/** Nodes that do not answer, of which each is logged once. */
const MAX_SILENT = 1_000;

/** The server, as proxies use it. */
export type SessionProxiesHost = Pick<SessionHost, 'options' | 'memory' | 'admitProxy' | 'release' | 'find'>;

export interface SessionProxiesOptions {
  readonly host: SessionProxiesHost;
  readonly incarnation: string;
  readonly membership: Membership;
  readonly moves: Moves;
  /** `undefined` if no session is recorded. */
  recorded(): DurableSessions | undefined;
  /** The session may be here in a moment. */
  readonly isArriving: (sessionId: string) => boolean;
  readonly tickets: Tickets;
  readonly webSocket: WebSocketAdapterOptions;
  readonly tls: TlsOptions | undefined;
  readonly logger: Logger;
}

/** The connections of clients whose sessions are at other nodes. */
export class SessionProxies {
  readonly all = new Set<SessionProxy>();
  readonly #options: SessionProxiesOptions;
  readonly #silent = new Set<string>();
  #hasLeft = false;

  constructor(options: SessionProxiesOptions) {
    this.#options = options;
  }

  handleTick(): void {
    for (const proxy of this.all) proxy.handleTick();
  }

  /** Ends the connections, so that their clients come back to other nodes. */
  leave(): void {
    this.#hasLeft = true;
    for (const proxy of this.all) proxy.leave(LEAVING);
  }

  /** Leads a connection to the node that has its session. Never rejects. */
  async lookup(request: LookupQuery): Promise<LookupResult> {
    const { membership, moves } = this.#options;
    const { sessionId } = request;
    try {
      let owner = await this.#ownerOf(sessionId);
      for (let hop = 0; hop <= MAX_HOPS; hop++) {
        const outcome = owner === undefined ? UNKNOWN : await this.#leadTo(owner, request);
        if (outcome !== UNKNOWN) return outcome;
        // It may have moved.
        membership.assertLease();
        const next = await moves.find(sessionId);
        if (next === undefined) return UNKNOWN;
        if (next === this.#options.incarnation) return await this.#findHere(request);
        // That node has died, or it has claimed the session and the answer of the engine was lost.
        if (next === owner?.incarnation) return await this.#takeOver(request, next);
        owner = next === NO_NODE ? undefined : (membership.get(next) ?? (await membership.find(next)));
        if (owner === undefined) return await this.#takeOver(request, next);
      }
      return BUSY;
    } catch {
      // The membership has logged that the engine does not answer.
      return BUSY;
    }
  }

  /** The record names this node. */
  async #findHere(request: LookupQuery): Promise<LookupResult> {
    const { host, isArriving } = this.#options;
    if (isArriving(request.sessionId)) return BUSY;
    // It was claimed, and the answer of the engine was lost.
    if (host.find(request.sessionId) !== undefined) return 'here';
    return await this.#takeOver(request, this.#options.incarnation);
  }

  async #takeOver(request: LookupQuery, gone: string): Promise<LookupResult> {
    const recorded = this.#options.recorded();
    if (request.signal.aborted) return 'done';
    // A client that has not learned of its session begins another one.
    if (request.offer.resume?.again !== undefined) return UNKNOWN;
    const outcome = recorded === undefined ? UNKNOWN : await recorded.takeOver({ ...request, gone });
    return outcome === 'busy' ? BUSY : outcome;
  }

  async #leadTo(owner: KnownNode, request: LookupQuery): Promise<Asked> {
    if (request.signal.aborted) return 'done';
    const address = addressKey(request.origin.ip);
    const refused = this.#options.host.admitProxy(address);
    if (refused !== undefined) return refused;
    return await this.#ask(owner, request, () => this.#options.host.release(address, undefined));
  }

  /** @throws {ProtocolError} if the engine does not answer, and the node is unknown without it. */
  async #ownerOf(sessionId: string): Promise<KnownNode | undefined> {
    const incarnation = incarnationOf(sessionId);
    if (incarnation === undefined || incarnation === this.#options.incarnation) return undefined;
    try {
      return this.#options.membership.get(incarnation) ?? (await this.#options.membership.find(incarnation));
    } catch (error) {
      // The engine may have forgotten that node, and still know where the session is now.
      this.#options.membership.assertLease();
      if ((await this.#options.moves.find(sessionId)) === undefined) throw error;
      return undefined;
    }
  }

  async #ask(owner: KnownNode, request: LookupQuery, release: () => void): Promise<Asked> {
    let answer = await this.#askOnce(owner, request, release);
    // If the process has died, the next connection is refused. If it was the network, the session must not be lost.
    if (answer.type === 'broken') answer = await this.#askOnce(owner, request, release);
    if (answer.type === 'proxied') return 'done';
    release();
    switch (answer.type) {
      case 'refused':
        return answer.refusal;
      case 'closed':
        if (answer.code === CloseCode.ABNORMAL) request.wire.terminate();
        else request.wire.close(answer.code, answer.reason);
        return 'done';
      case 'gone':
        return UNKNOWN;
      default:
        return (await this.#options.membership.isGone(owner.incarnation))
          ? UNKNOWN
          : this.#busy(owner, answer.why);
    }
  }

  async #askOnce(owner: KnownNode, request: LookupQuery, release: () => void): Promise<Answer> {
    const { sessionId, hello, subprotocol, identity, origin, signal } = request;
    const { ip, headers, isForwarded } = origin;
    const helloDigest = digestOf(hello);
    const client = { sessionId, helloDigest, subprotocol, identity, ip, headers, isForwarded };
    return await ask({
      ...this.#options.webSocket,
      url: `${owner.address.replace(/\/$/, '')}${PEER_PATH}`,
      hello,
      subprotocol,
      headers: {
        authorization: `${TICKET_SCHEME} ${this.#options.tickets.issue(owner.incarnation, client)}`,
      },
      tls: clientSide(this.#options.tls),
      timeoutMs: owner.draining === true ? DRAINING_TIMEOUT_MS : undefined,
      begin: (far) => this.#begin(owner, request, far, release),
      signal,
    });
  }

  #begin(
    { incarnation }: KnownNode,
    request: LookupQuery,
    far: Transport,
    release: () => void,
  ): SessionProxy {
    const { sessionId, wire, memoryKeys, origin, onProxied } = request;
    const { limits } = this.#options.host.options;
    const memory = this.#options.host.memory.open(limits.sessionMemory);
    memory.assign(memoryKeys);
    const proxy: SessionProxy = new SessionProxy(wire, far, {
      limits,
      memory,
      logger: this.#options.logger,
      sessionId,
      owner: incarnation,
      origin,
      onOver: () => {
        this.all.delete(proxy);
        release();
      },
    });
    memory.onFault = (error) => proxy.crash(error);
    this.all.add(proxy);
    this.#silent.delete(incarnation);
    onProxied(proxy);
    const fields = { event: 'session.led', ip: origin.ip, session: sessionId, node: incarnation };
    this.#options.logger.info(fields, 'the connection is proxied to the node of its session');
    // The owner was asked before.
    if (this.#hasLeft) proxy.leave(LEAVING);
    return proxy;
  }

  /** The node may still have the session, so its client asks again soon. */
  #busy({ incarnation, address }: KnownNode, why: string): Refusal {
    if (!this.#silent.has(incarnation)) {
      if (this.#silent.size >= MAX_SILENT) this.#silent.clear();
      this.#silent.add(incarnation);
      const fields = { event: 'peer.silent', node: incarnation, address, why };
      this.#options.logger.warn(fields, 'a node does not answer; clients of its sessions are asked to wait');
    }
    return BUSY;
  }
}

type Asked = 'done' | ResumeRefusal | Refusal;

const LEAVING = 'this node is shutting down';
const UNKNOWN = ResumeRefusal.UNKNOWN_SESSION;

const BUSY = busy('the node that has the session does not answer yet', RETRY_MS);
