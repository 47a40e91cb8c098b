import { ProtocolError } from '@parlance/protocol';
import {
  createMessage,
  type ReplyKeeper,
  restoreSession,
  type ServerSessionCore,
  systemClock,
} from '@parlance/protocol/internal';
import { countedPrincipal } from './admission/authentication.js';
import { renew, setOrigin } from './admission/renewal.js';
import type { AgentMoves, AgentState } from './agents/moves.js';
import type { Lead } from './cluster/lead/lead.js';
import { decodeMoved, type MovedSession } from './cluster/moves/moved-session.js';
import type { MovedHere } from './cluster/moves/moves.js';
import { ServerEndpoint } from './endpoint.js';
import { addressKey, memoryKeys } from './http/addresses.js';
import { LoopQueue } from './loop-queue.js';
import type { Replies } from './replies/replies.js';
import { clientInfo } from './served-session.js';
import { type ConnectionHost, SessionSettings } from './session-settings.js';

/** What a session of another node needs from its new server. */
export interface RestoringHost extends ConnectionHost {
  /** Counts the session, or throws why it is refused. */
  admitMoved(address: string, principal: string | undefined, isLed: boolean): void;
  /** The session is here from now on. @param adopt makes it the agent that it was. */
  onRestored(session: ServerEndpoint, adopt: () => void): void;
  readonly agentMoves: AgentMoves | undefined;
  readonly keeper: ReplyKeeper & Pick<Replies, 'resume'>;
}

/** A session waits for the loop, and a connection is not read meanwhile. This one may have none. */
const NO_WIRE = { hold() {}, unhold() {} };

/** A session that another node has handed over. */
export class RestoredSession extends SessionSettings implements MovedHere {
  readonly core: ServerSessionCore;
  readonly session: ServerEndpoint;
  protected readonly host: RestoringHost;
  protected readonly queue: LoopQueue;
  readonly #address: string;
  readonly #principal: string | undefined;
  #isAdmitted = false;
  readonly #agent: AgentState | undefined;
  readonly #input: MovedSession['input'];
  readonly #follows: MovedSession['follows'];

  /**
   * @param epoch of its record.
   * @throws {ProtocolError} as `restoreSession`; `over_budget` if there is no memory for what it has not read.
   */
  constructor(host: RestoringHost, moved: MovedSession, lead: Lead | undefined) {
    super();
    const { principal, agentId, isAnonymous, actsFor, ip, client, since, data, unread, subprotocol } = moved;
    this.host = host;
    this.core = restoreSession(host.sessionOptions(subprotocol), moved.core, systemClock.now());
    if (this.core.id !== moved.id || (this.core.state === 'suspended') !== (lead === undefined))
      throw new ProtocolError('bad_message', 'the snapshot is not that of the session');
    this.#input = moved.input;
    this.#follows = moved.follows;
    this.#agent = moved.agent === undefined ? undefined : host.agentMoves?.read(moved.agent);
    this.#principal = countedPrincipal(principal, host.options);
    const countedIp = lead?.origin.ip ?? ip;
    this.#address = addressKey(countedIp);
    this.queue = new LoopQueue(host.loop, NO_WIRE, memoryKeys(countedIp, this.#principal).at(-1) as string);
    this.session = new ServerEndpoint(this);
    const { session } = this;
    session.ip = countedIp;
    session.client = lead === undefined ? client : clientInfo(lead.origin.ip, lead.origin.headers);
    session.since = since;
    session.principal = principal;
    session.agentId = agentId;
    session.isAnonymous = isAnonymous;
    session.actsFor = actsFor;
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
    host: RestoringHost,
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
    const agent = this.#agent;
    this.host.onRestored(session, () => agent && this.host.agentMoves?.adopt(session, agent, from));
    for (const state of this.#follows) this.host.keeper.resume(session, state);
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
