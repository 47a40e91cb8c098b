import { ProtocolError } from '@parlance/protocol';
import {
  createMessage,
  restoreSession,
  type ServerSessionCore,
  systemClock,
} from '@parlance/protocol/internal';
import { countedPrincipal } from './admission/authentication.js';
import { renew, setOrigin } from './admission/renewal.js';
import type { Lead } from './cluster/lead/lead.js';
import type { MovedHere } from './cluster/moves/departures.js';
import { decodeMoved, type MovedSession } from './cluster/moves/moved-session.js';
import { ServerEndpoint } from './endpoint.js';
import { addressKey } from './http/addresses.js';
import { LoopQueue } from './loop-queue.js';
import { clientInfo } from './served-session.js';
import { SessionSettings } from './session-settings.js';
import type { SessionsHost } from './sessions-host.js';

/** A session waits for the loop, and a connection is not read meanwhile. This one may have none. */
const NO_WIRE = { hold() {}, unhold() {} };

/** A session that another node has handed over. */
export class RestoredSession extends SessionSettings implements MovedHere {
  readonly core: ServerSessionCore;
  readonly session: ServerEndpoint;
  protected readonly host: SessionsHost;
  protected readonly queue: LoopQueue;
  readonly #address: string;
  readonly #principal: string | undefined;
  #isAdmitted = false;
  readonly #load: (session: ServerEndpoint, from: string) => void;
  readonly #input: MovedSession['input'];

  /**
   * @param epoch of its record.
   * @throws {ProtocolError} as `restoreSession`; `over_budget` if there is no memory for what it has not read.
   */
  constructor(host: SessionsHost, moved: MovedSession, lead: Lead | undefined) {
    super();
    const { principal, agentId, isAnonymous, actsFor, ip, client, since, data, unread, subprotocol } = moved;
    this.host = host;
    this.core = restoreSession(host.sessionOptions(subprotocol), moved.core, systemClock.now());
    if (this.core.id !== moved.id || (this.core.state === 'suspended') !== (lead === undefined))
      throw new ProtocolError('bad_message', 'the snapshot is not that of the session');
    this.#input = moved.input;
    this.#load = host.parts.load(moved.parts);
    this.#address = addressKey(lead?.origin.ip ?? ip);
    this.#principal = countedPrincipal(principal, host.options);
    const key = this.#principal === undefined ? `address ${this.#address}` : `principal ${this.#principal}`;
    this.queue = new LoopQueue(host.loop, NO_WIRE, key);
    this.session = new ServerEndpoint(this);
    const { session } = this;
    session.ip = ip;
    session.client = lead === undefined ? client : clientInfo(lead.origin.ip, lead.origin.headers);
    session.since = since;
    session.principal = principal;
    session.agentId = agentId;
    session.isAnonymous = isAnonymous;
    session.actsFor = actsFor;
    session.memoryKeys =
      this.#principal === undefined ? [`address ${this.#address}`] : [`address ${this.#address}`, key];
    session.restore(data);
    if (lead !== undefined) setOrigin(session, lead.origin, host.options);
    try {
      for (const body of unread) this.#pushUnread(body);
      host.admitMoved(this.#address, this.#principal, lead !== undefined);
      this.#isAdmitted = true;
    } catch (error) {
      this.discard();
      throw error;
    }
  }

  /** @throws {ProtocolError} as the constructor and `decodeMoved`. */
  static of(
    host: SessionsHost,
    bytes: Uint8Array,
    sessionId: string,
    lead: Lead | undefined,
  ): RestoredSession {
    const moved = decodeMoved(bytes, host.options.limits);
    if (moved.id !== sessionId || host.find(sessionId) !== undefined)
      throw new ProtocolError('bad_message', 'the session is another one, or is here already');
    return new RestoredSession(host, moved, lead);
  }

  /** @throws {ProtocolError} `over_budget`. */
  #pushUnread(body: MovedSession['unread'][number]): void {
    const { session } = this;
    const message = createMessage(body, session.coder);
    const size = session.coder.memoryOf(body);
    message.owner = session;
    if (size > 0) message.reservation = session.memory.charge(size);
    session.mailbox.push(message);
  }

  begin(lead: Lead | undefined, from: string): void {
    const { session } = this;
    this.host.onRestored(session, () => this.#load(session, from));
    lead?.handOver(this.session, this.#input);
    this.session.handleTick();
  }

  discard(): void {
    this.session.forget();
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
      if (this.#isAdmitted) this.host.release(this.#address, this.#principal);
    } finally {
      this.host.onEnded(this.session, error);
      this.queue.close();
    }
  }
}
