import type { Limits, Logger, ProtocolError, RequestHandler } from '@parlance/protocol';
import {
  type Clock,
  type EndpointOptions,
  type EventRoute,
  type Fields,
  type Mailbox,
  type MemoryBudget,
  type ServerSessionCore,
  systemClock,
} from '@parlance/protocol/internal';
import { addressKey, memoryKeys } from '../transport/http/addresses.js';
import { LoopQueue } from '../transport/loop-queue.js';
import { warnOfEnd } from './admission/keys.js';
import { type Origin, renew, setOrigin } from './admission/renewal.js';
import { ServerEndpoint, type ServerEndpointOptions } from './endpoint.js';
import type { SessionHost } from './host.js';
import type { SessionObserver } from './observer.js';
import { type ClientInfo, clientInfo } from './served-session.js';

/** The owner of a session. */
export interface Owner {
  /** The address that the session counts for. */
  readonly ip: string;
  /** Of the account that it counts for; `undefined` without `authenticate`. */
  readonly counted: string | undefined;
  readonly principal: string | undefined;
  readonly agentId: string | undefined;
  readonly isAnonymous: boolean;
  /** Of its newest connection. */
  readonly client: ClientInfo;
  /** Unix milliseconds. */
  readonly since: number;
  /** The JSON of `ServerSession.data`. */
  readonly data: string | undefined;
}

/** A session that did not begin on a connection to this server. */
export interface Adopted extends Owner {
  readonly core: ServerSessionCore;
  /** The saved state of each feature, by name. */
  readonly parts: Fields;
  /** The client that is about to connect, if one is. */
  readonly origin: Origin | undefined;
}

/** A session waits for the loop, and a connection is not read meanwhile. This one may have none. */
const NO_TRANSPORT = { hold() {}, unhold() {} };

/**
 * Drives one session of a server, also one that began at another node: has its options, most of which are those of the server, and
 * tells the server when it is ready, has lost its connection, and is over.
 */
export class SessionDriver implements ServerEndpointOptions {
  readonly role = 'server';
  readonly core: ServerSessionCore;
  readonly session: ServerEndpoint;
  readonly address: string;
  readonly #counted: string | undefined;
  readonly #host: SessionHost;
  readonly #queue: LoopQueue;
  /** The quotas of the server count it, until it ends. */
  isAdmitted = false;

  /** @param queue of the connection on which it begins, with which it shares its time. */
  constructor(host: SessionHost, core: ServerSessionCore, owner: Owner, queue?: LoopQueue) {
    const { ip, counted, client, since, principal, agentId, isAnonymous, data } = owner;
    this.#host = host;
    this.core = core;
    this.address = addressKey(ip);
    this.#counted = counted;
    this.#queue =
      queue?.share() ?? new LoopQueue(host.loop, NO_TRANSPORT, memoryKeys(ip, counted).at(-1) as string);
    const session = new ServerEndpoint(this);
    this.session = session;
    session.ip = ip;
    session.client = client;
    session.since = since;
    session.principal = principal;
    session.agentId = agentId;
    session.isAnonymous = isAnonymous;
    session.dataText = data;
  }

  /**
   * A session that was made elsewhere.
   *
   * @returns `load` gives features their saved state. `from` is the node that has handed the session over; `undefined`
   * if it was restored from its record.
   * @throws {ProtocolError} `bad_message` if a feature is missing here, or does not read what it has saved.
   */
  static adopt(host: SessionHost, adopted: Adopted): AdoptedSession {
    const { origin, core } = adopted;
    const load = host.features.load(adopted.parts);
    const { ip, client } =
      origin === undefined ? adopted : { ip: origin.ip, client: clientInfo(origin.ip, origin.headers) };
    const driver = new SessionDriver(host, core, { ...adopted, ip, client });
    const { session } = driver;
    session.restore();
    if (origin !== undefined) setOrigin(session, origin, host.options);
    return { driver, session, load: (from) => load(session, from) };
  }

  // --- options

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
    return () => this.#queue.next();
  }
  get takesMessages(): boolean {
    return this.#host.options.onSession !== undefined;
  }
  get onRequest(): RequestHandler | undefined {
    return this.#host.onRequest;
  }
  get mailbox(): Mailbox | undefined {
    return this.#host.features.endpoint.createMailbox?.();
  }
  get Session(): ServerEndpointOptions['Session'] {
    return this.#host.features.Session;
  }
  get readerOf(): ServerEndpointOptions['readerOf'] {
    return this.#host.features.endpoint.readerOf;
  }
  get onHandled(): ServerEndpointOptions['onHandled'] {
    return this.#host.features.onHandled;
  }
  get observer(): SessionObserver | undefined {
    return this.#host.observer;
  }
  get batch(): EndpointOptions['batch'] {
    return this.#host.features.endpoint.batch;
  }
  get security(): EndpointOptions['security'] {
    return this.#host.options.security;
  }
  get keeper(): EndpointOptions['keeper'] {
    return this.#host.features.endpoint.keeper;
  }
  get createScanner(): EndpointOptions['createScanner'] {
    return this.#host.features.endpoint.createScanner;
  }
  get transfers(): EndpointOptions['transfers'] {
    return this.#host.features.endpoint.transfers;
  }
  get logger(): Logger {
    return this.#host.options.logger;
  }
  get route(): EventRoute | undefined {
    return this.#host.features.routeOf(this.session);
  }

  // --- events of the session

  onRest(): void {
    this.#queue.rest();
  }

  onAuth(token: string): void {
    renew(this.session, token, this.#host.options).catch((error: unknown) => this.session.crash(error));
  }

  onReady(): void {
    this.#host.onReady(this.session);
  }

  onWireLost(): void {
    this.#host.onWireLost(this.session);
  }

  onEnded(error: ProtocolError | undefined): void {
    try {
      if (this.isAdmitted) this.#host.release(this.address, this.#counted);
      warnOfEnd(error, this.session.id, this.#host.options);
    } finally {
      this.#host.onEnded(this.session, error);
      this.#queue.close();
    }
  }
}

export interface AdoptedSession {
  readonly driver: SessionDriver;
  readonly session: ServerEndpoint;
  load(from: string | undefined): void;
}
