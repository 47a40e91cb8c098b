import { ProtocolError } from '@parlance/protocol';
import {
  loadAgreed,
  ReceivedMessage,
  restoreSession,
  type ServerSessionCore,
  systemClock,
} from '@parlance/protocol/internal';
import { countedPrincipal } from '../../session/admission/authentication.js';
import { type AdoptedSession, SessionDriver } from '../../session/driver.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { SessionHost } from '../../session/host.js';
import type { SessionProxy } from '../proxies/session-proxy.js';
import type { MovedHere } from './departure.js';
import { decodeMoved, type MovedSession } from './moved-session.js';

/** A session that another node has handed over. */
export class RestoredSession implements MovedHere {
  readonly #host: SessionHost;
  readonly #moved: MovedSession;
  readonly #adopted: AdoptedSession;

  /** @throws {ProtocolError} `bad_message`; `over_budget` if there is no memory for what it has not read. */
  private constructor(
    host: SessionHost,
    moved: MovedSession,
    core: ServerSessionCore,
    proxy: SessionProxy | undefined,
  ) {
    const { principal } = moved;
    if (core.id !== moved.id || (core.state === 'suspended') !== (proxy === undefined))
      throw new ProtocolError('bad_message', 'the snapshot is not that of the session');
    this.#host = host;
    this.#moved = moved;
    const counted = countedPrincipal(principal, host.options);
    this.#adopted = SessionDriver.adopt(host, { ...moved, core, counted, origin: proxy?.origin });
    try {
      for (const body of moved.unread) this.#pushUnread(body);
      const { driver } = this.#adopted;
      host.admitMoved(driver.address, counted, proxy !== undefined);
      driver.isAdmitted = true;
    } catch (error) {
      this.discard();
      throw error;
    }
  }

  /** @throws {ProtocolError} as the constructor, `decodeMoved`, `restoreSession` and `loadAgreed`. */
  static async of(
    host: SessionHost,
    bytes: Uint8Array,
    sessionId: string,
    proxy: SessionProxy | undefined,
  ): Promise<RestoredSession> {
    const moved = decodeMoved(bytes, host.options.limits);
    const options = host.sessionOptions(moved.subprotocol);
    const core = restoreSession(options, moved.core, systemClock.now());
    // This node may have begun just now, and not have loaded what the session was agreed to use.
    if (core.negotiated !== undefined) await loadAgreed(core.negotiated);
    if (moved.id !== sessionId || host.find(sessionId) !== undefined)
      throw new ProtocolError('bad_message', 'the session is another one, or is here already');
    return new RestoredSession(host, moved, core, proxy);
  }

  get session(): ServerEndpoint {
    return this.#adopted.session;
  }

  /** @throws {ProtocolError} `over_budget`. */
  #pushUnread(body: MovedSession['unread'][number]): void {
    const { session } = this;
    const size = session.coder.memoryOf(body);
    const reservation = size > 0 ? session.memory.charge(size) : undefined;
    session.mailbox.push(
      new ReceivedMessage(body, session.coder, undefined, undefined, reservation, session),
    );
  }

  begin(proxy: SessionProxy | undefined, from: string): void {
    const { session } = this;
    this.#host.onRestored(session, () => this.#adopted.load(from));
    proxy?.handOver(session, this.#moved.input);
    session.handleTick();
  }

  discard(): void {
    this.session.forget();
  }
}
