import type { ProtocolError } from '@parlance/protocol';
import type { Fields, ServerSessionCore } from '@parlance/protocol/internal';
import { addressKey, memoryKeys } from '../transport/http/addresses.js';
import { LoopQueue } from '../transport/loop-queue.js';
import { type Origin, renew, setOrigin } from './admission/renewal.js';
import { ServerEndpoint } from './endpoint.js';
import { type ClientInfo, clientInfo } from './served-session.js';
import { type ConnectionHost, SessionSettings } from './session-settings.js';

/** A session that did not begin on a connection to this server. */
export interface Adopted {
  readonly core: ServerSessionCore;
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
  /** What parts have saved, by name. */
  readonly parts: Fields;
  /** The client that is about to connect, if one is. */
  readonly origin: Origin | undefined;
}

/** A session waits for the loop, and a connection is not read meanwhile. This one may have none. */
const NO_WIRE = { hold() {}, unhold() {} };

/** Drives a session that was made elsewhere, as a connection drives one that begins on it. */
export class AdoptedSession extends SessionSettings {
  readonly core: ServerSessionCore;
  readonly session: ServerEndpoint;
  protected readonly host: ConnectionHost;
  protected readonly queue: LoopQueue;
  readonly address: string;
  readonly counted: string | undefined;
  readonly #load: (session: ServerEndpoint, from: string | undefined) => void;
  /** The quotas of the server count it, until it ends. */
  isAdmitted = false;

  /** @throws {ProtocolError} `bad_message` if a part is missing here, or does not read what it has saved. */
  constructor(host: ConnectionHost, adopted: Adopted) {
    super();
    const { core, ip, counted, principal, agentId, isAnonymous, client, since, data, origin } = adopted;
    this.host = host;
    this.core = core;
    this.#load = host.parts.load(adopted.parts);
    const countedIp = origin?.ip ?? ip;
    this.address = addressKey(countedIp);
    this.counted = counted;
    this.queue = new LoopQueue(host.loop, NO_WIRE, memoryKeys(countedIp, counted).at(-1) as string);
    const session = new ServerEndpoint(this);
    this.session = session;
    session.ip = countedIp;
    session.client = origin === undefined ? client : clientInfo(origin.ip, origin.headers);
    session.since = since;
    session.principal = principal;
    session.agentId = agentId;
    session.isAnonymous = isAnonymous;
    session.restore(data);
    if (origin !== undefined) setOrigin(session, origin, host.options);
  }

  /** Gives parts what they have saved. @param from the node that has handed it over; `undefined` if it was on record. */
  load(from: string | undefined): void {
    this.#load(this.session, from);
  }

  // --- events of the session

  onAuth(token: string): void {
    renew(this.session, token, this.host.options).catch((error: unknown) => this.session.crash(error));
  }

  onWireLost(): void {
    this.host.onWireLost(this.session);
  }

  onEnded(error: ProtocolError | undefined): void {
    try {
      if (this.isAdmitted) this.host.release(this.address, this.counted);
    } finally {
      this.host.onEnded(this.session, error);
      this.queue.close();
    }
  }
}
