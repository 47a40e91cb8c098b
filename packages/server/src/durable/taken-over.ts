import { type ProtocolError, Subprotocol } from '@parlance/protocol';
import {
  type DurableRecord,
  type DurableSession,
  readBegin,
  restoreDurableSession,
  type ServerSessionCore,
  systemClock,
} from '@parlance/protocol/internal';
import type { Origin } from '../admission/renewal.js';
import { renew, setOrigin } from '../admission/renewal.js';
import { ServerEndpoint } from '../endpoint.js';
import { addressKey, memoryKeys } from '../http/addresses.js';
import { LoopQueue } from '../loop-queue.js';
import { clientInfo } from '../served-session.js';
import { type ConnectionHost, SessionSettings } from '../session-settings.js';
import { dataTextOf } from './state.js';

/** A session that was on record at another node, for the client that has come back to it. */
export interface TakenOver {
  readonly record: DurableRecord;
  /** The principal of the record, which is that of the client; none without `authenticate`. */
  readonly principal: string | undefined;
  /** Of the record, since this node has it. */
  readonly epoch: number;
  readonly origin: Origin;
}

/** A session waits for the loop, and a connection is not read meanwhile. This one has none yet. */
const NO_WIRE = { hold() {}, unhold() {} };

/** A session of a node that has died. It was admitted here before its record was claimed. */
export class TakenOverSession extends SessionSettings {
  readonly core: ServerSessionCore;
  readonly session: ServerEndpoint;
  readonly durable: DurableSession;
  protected readonly host: ConnectionHost;
  protected readonly queue: LoopQueue;
  readonly #address: string;
  readonly #principal: string | undefined;

  /** @throws {ProtocolError} as `restoreDurableSession`. */
  constructor(host: ConnectionHost, { record, principal, epoch, origin }: TakenOver) {
    super();
    this.host = host;
    const options = host.sessionOptions(Subprotocol.BINARY);
    const { agentId } = readBegin(record.begin, options);
    this.core = restoreDurableSession(options, record, systemClock.now());
    this.durable = this.core.durable as DurableSession;
    this.#address = addressKey(origin.ip);
    this.#principal = principal;
    this.queue = new LoopQueue(host.loop, NO_WIRE, memoryKeys(origin.ip, principal).at(-1) as string);
    this.session = new ServerEndpoint(this);
    const { session } = this;
    session.ip = origin.ip;
    session.client = clientInfo(origin.ip, origin.headers);
    session.since = Date.now();
    session.principal = principal;
    session.agentId = agentId;
    session.isAnonymous = principal === undefined;
    session.restore(dataTextOf(record.state));
    session.epoch = epoch;
    setOrigin(session, origin, host.options);
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
      this.host.release(this.#address, this.#principal);
    } finally {
      this.host.onEnded(this.session, error);
      this.queue.close();
    }
  }
}
