import { CloseReason, type HelloPayload, ResumeRefusal } from '../../control/messages.js';
import { createSession } from '../../session/session.js';
import type { SessionCore, SessionEvent } from '../../session/types.js';
import { Application } from './application.js';
import type { Connection, Frame, Party } from './network.js';
import { SESSION, type World } from './world.js';

/** A server in virtual time: admits connections, holds sessions and lets them be taken up. */

/** A session that the server holds, or what is to become one. */
interface Held {
  readonly core: SessionCore;
  /** What carries it. */
  wire: Connection | undefined;
  application: Application | undefined;
}

/** A HELLO that is being looked into. */
interface Decision {
  readonly at: number;
  readonly held: Held;
  readonly hello: HelloPayload;
}

const MAX_DECISION_MS = 40;

export class Server {
  readonly #world: World;
  readonly #sessions = new Map<string, Held>();
  /** Sessions, and what is none yet. */
  readonly #held = new Set<Held>();
  /** The session that a connection feeds, where that is not its own. */
  readonly #takenUp = new WeakMap<Connection, Held>();
  #decisions: Decision[] = [];

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
    const target = (): Held => this.#takenUp.get(connection) ?? own;
    return {
      handleFrame: (frame) => this.#handleFrame(connection, target(), frame),
      handleClose: (code) => this.#handleClose(connection, target(), code),
    };
  }

  handleTime(): void {
    const { now } = this.#world.network;
    const due = this.#decisions.filter(({ at }) => at <= now);
    this.#decisions = this.#decisions.filter(({ at }) => at > now);
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

  /** The process ends, and another one takes its place. */
  restart(): void {
    this.#world.tally.count('server started anew');
    for (const { core, wire } of this.#held) {
      wire?.cut();
      if (core.id !== undefined) this.#world.ledger.forgotten(core.id);
    }
    this.#sessions.clear();
    this.#held.clear();
    this.#decisions = [];
  }

  /** Applies what the sessions have to say. Returns whether there was anything. */
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
    // Another connection may have taken the session away from this one.
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
      // Whoever authenticates asks somebody else first.
      this.#decisions.push({ at: network.now + random.below(MAX_DECISION_MS), held, hello: event.hello });
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
    // The client may have gone while it was being looked up.
    if (core.state !== 'connecting' || wire === undefined || !this.#held.has(held)) return;
    const outcome = this.#takeUp(wire, hello);
    if (outcome === 'taken_up' || outcome === 'stale_attempt') {
      this.#held.delete(held);
      if (outcome === 'stale_attempt') wire.close('server', 4410);
      return;
    }
    const session = `session ${this.#world.nextNumber()}`;
    core.accept(session, this.#world.network.now, { refusal: outcome });
    held.application = new Application({ ...this.#world, core, side: 'server', session });
    this.#sessions.set(session, held);
  }

  /** From the look-up to the takeover nothing waits, so no other connection can come in between. */
  #takeUp(wire: Connection, hello: HelloPayload): ResumeRefusal | 'taken_up' | 'stale_attempt' | undefined {
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
      tally.count('taken up while another connection carried it');
      found.core.handleDisconnected(1006, 'taken over', network.now);
      former.close('server', 4409);
    }
    tally.count(found.core.state === 'closing' ? 'taken up while closing' : 'taken up');
    this.#takenUp.set(wire, found);
    found.wire = wire;
    found.application?.regain();
    found.core.resume(resume, network.now);
    return 'taken_up';
  }
}
