import { CloseReason, type HelloPayload, ResumeRefusal } from '../../control/messages.js';
import { createSession } from '../../session/create.js';
import type { SessionCore, SessionEvent } from '../../session/types.js';
import { Application } from './application.js';
import type { Connection, Frame, Party } from './network.js';
import { SESSION, type World } from './world.js';

/** A session that the server holds, or a connection without one yet. */
interface Held {
  readonly core: SessionCore;
  /** Its connection. */
  wire: Connection | undefined;
  application: Application | undefined;
}

/** A HELLO that is waiting for authentication. */
interface Pending {
  readonly at: number;
  readonly held: Held;
  readonly hello: HelloPayload;
}

const MAX_DECISION_MS = 40;

/** A server in virtual time: it admits connections, holds sessions and resumes them. */
export class Server {
  readonly #world: World;
  readonly #sessions = new Map<string, Held>();
  /** Sessions, and connections without one yet. */
  readonly #held = new Set<Held>();
  /** Connections that resumed an earlier session. */
  readonly #resumed = new WeakMap<Connection, Held>();
  #pending: Pending[] = [];

  constructor(world: World) {
    this.#world = world;
  }

  get size(): number {
    return this.#held.size;
  }

  get applications(): Application[] {
    return [...this.#sessions.values()].flatMap(({ application }) => application ?? []);
  }

  applicationOf(session: string | undefined): Application | undefined {
    return this.#sessions.get(session ?? '')?.application;
  }

  accept(connection: Connection): Party {
    const core = createSession({ ...SESSION, role: 'server' });
    const own: Held = { core, wire: connection, application: undefined };
    this.#held.add(own);
    core.handleConnected(this.#world.network.now);
    const target = (): Held => this.#resumed.get(connection) ?? own;
    return {
      handleFrame: (frame) => this.#handleFrame(connection, target(), frame),
      handleClose: (code) => this.#handleClose(connection, target(), code),
    };
  }

  handleTime(): void {
    const { now } = this.#world.network;
    const due = this.#pending.filter(({ at }) => at <= now);
    this.#pending = this.#pending.filter(({ at }) => at > now);
    for (const { held, hello } of due) this.#decide(held, hello);
    for (const { core } of this.#held) core.handleTimeout(now);
  }

  close(session: string): void {
    const held = this.#sessions.get(session);
    if (held === undefined || held.core.state === 'closing') return;
    if (held.wire === undefined) this.#world.tally.count('closed without a connection');
    this.#world.tally.count('closed by the server');
    this.#world.ledger.closed(session, 'server');
    held.core.close(CloseReason.NORMAL, '', this.#world.network.now);
  }

  /** The process is replaced by a new one. */
  restart(): void {
    this.#world.tally.count('server restarted');
    for (const { core, wire } of this.#held) {
      wire?.cut();
      if (core.id !== undefined) this.#world.ledger.forgotten(core.id);
    }
    this.#sessions.clear();
    this.#held.clear();
    this.#pending = [];
  }

  /** Sends and handles everything that the sessions put out. Returns whether there was anything. */
  pump(): boolean {
    let isBusy = false;
    for (const held of this.#held) {
      let closeCode: number | undefined;
      this.#transmit(held);
      while (held.core.hasEvents) {
        isBusy = true;
        for (let event = held.core.pollEvent(); event !== undefined; event = held.core.pollEvent()) {
          if (event.type === 'disconnect') closeCode ??= event.closeCode;
          else this.#handleEvent(held, event);
        }
        this.#transmit(held);
      }
      if (closeCode === undefined) continue;
      held.wire?.close('server', closeCode);
      this.#lose(held);
    }
    return isBusy;
  }

  #transmit({ core, wire }: Held): void {
    while (wire !== undefined && !wire.isFull('server')) {
      const frame = core.pollTransmit();
      if (frame === undefined) return;
      wire.send('server', frame);
    }
  }

  #handleFrame(connection: Connection, held: Held, frame: Frame): void {
    // Another connection may have resumed the session.
    if (held.wire === connection) held.core.handleMessage(frame, this.#world.network.now);
  }

  #handleClose(connection: Connection, held: Held, code: number): void {
    if (held.wire !== connection) return;
    this.#lose(held);
    held.core.handleDisconnected(code, '', this.#world.network.now);
  }

  #lose(held: Held): void {
    held.wire = undefined;
    if (held.application !== undefined) held.application.lose();
  }

  #handleEvent(held: Held, event: SessionEvent): void {
    const { network, random } = this.#world;
    if (event.type === 'hello') {
      // Authentication takes time.
      this.#pending.push({ at: network.now + random.below(MAX_DECISION_MS), held, hello: event.hello });
      return;
    }
    held.application?.handle(event);
    if (event.type !== 'ended') return;
    this.#held.delete(held);
    if (held.core.id !== undefined) this.#sessions.delete(held.core.id);
    if (held.wire === undefined && event.error?.code === 'session_lost')
      this.#world.tally.count('window passed');
  }

  #decide(held: Held, hello: HelloPayload): void {
    const { core, wire } = held;
    // The client may have disconnected meanwhile.
    if (core.state !== 'connecting' || wire === undefined || !this.#held.has(held)) return;
    const outcome = this.#resume(wire, hello);
    if (outcome === 'resumed' || outcome === 'stale_attempt') {
      this.#held.delete(held);
      if (outcome === 'stale_attempt') wire.close('server', 4410);
      return;
    }
    const session = `session ${this.#world.nextNumber()}`;
    core.accept(session, this.#world.network.now, { refusal: outcome });
    held.application = new Application({ ...this.#world, core, side: 'server', session });
    this.#sessions.set(session, held);
  }

  /** Synchronous from look-up to takeover, so that no other connection can interfere. */
  #resume(wire: Connection, hello: HelloPayload): ResumeRefusal | 'resumed' | 'stale_attempt' | undefined {
    const { resume } = hello;
    if (resume === undefined) return undefined;
    const { network, tally } = this.#world;
    const found = this.#sessions.get(resume.sessionId);
    if (found === undefined) return ResumeRefusal.UNKNOWN_SESSION;
    const refused = found.core.checkResume(hello, SESSION.subprotocol);
    if (refused === 'stale_attempt') tally.count('stale attempt refused');
    if (refused !== undefined) return refused;
    const former = found.wire;
    if (former !== undefined) {
      tally.count('resumed while still connected');
      found.core.handleDisconnected(1006, 'taken over', network.now);
      former.close('server', 4409);
    }
    tally.count(found.core.state === 'closing' ? 'resumed while closing' : 'resumed');
    this.#resumed.set(wire, found);
    found.wire = wire;
    found.application?.regain();
    found.core.resume(resume, network.now);
    return 'resumed';
  }
}
