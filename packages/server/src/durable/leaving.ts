import type { Logger, ProtocolError, Timers } from '@parlance/protocol';
import { type Clock, fencedError, guard, loggable } from '@parlance/protocol/internal';
import { persist, repeat } from '../base/repeat.js';
import type { EngineConnection } from '../engine/engine.js';
import { NO_NODE, retentionMsOf, SERVICE_RESTART } from '../session/durable-rules.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { LeavingHooks } from '../session/hooks.js';

export interface LeavingOptions {
  /** This node. */
  readonly incarnation: string;
  readonly link: EngineConnection;
  /** All sessions of this node. */
  readonly sessions: ReadonlyMap<string, ServerEndpoint>;
  readonly parts: () => Pick<LeavingHooks, 'leaves' | 'moved'>;
  readonly timers: Timers;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How often sessions are looked at, in milliseconds. */
const LOOK_MS = 20;
/** How long `onSession` may take to return, and what is under way to be recorded, in milliseconds. */
const RETURN_MS = 1_000;
/** How long, and how often, the engine is asked to write that a session may be taken, in milliseconds. */
const SAY_MS = 3_000;
const RETRY_MS = 100;

/** Gives up the durable sessions of a node that leaves, each for any other node that its client comes to. */
export class Leaving {
  readonly #options: LeavingOptions;
  readonly #underWay = new Map<string, Promise<void>>();
  /** When the client of a session is to leave: a clock reading. */
  readonly #due = new WeakMap<ServerEndpoint, number>();
  /** Sessions whose records still name this node, which has them no more. */
  readonly #unsaid = new Set<string>();
  #stopLooking: () => void = () => {};

  constructor(options: LeavingOptions) {
    this.#options = options;
  }

  /** Another node may have the session in a moment. */
  isUnsaid(sessionId: string): boolean {
    return this.#unsaid.has(sessionId);
  }

  /** From now on sessions in which nothing is under way leave. @param withinMs their clients come back within this time. */
  start(withinMs: number): void {
    const { clock, logger } = this.#options;
    this.#stopLooking = repeat(
      LOOK_MS,
      () => {
        for (const session of this.#sessions) {
          const due = this.#due.get(session) ?? clock.now() + Math.random() * withinMs;
          this.#due.set(session, due);
          if (due <= clock.now() && this.#isCalm(session)) this.#leave(session);
        }
      },
      logger,
    );
  }

  /** Gives up all sessions. Handlers that still run are called again elsewhere, or not, as if this process had died. */
  async all(): Promise<void> {
    this.#stopLooking();
    for (const session of this.#sessions) this.#leave(session);
    await Promise.all(this.#underWay.values());
  }

  /**
   * Gives up all sessions at once, as if this process had died: other nodes may take them by now, and the engine is not
   * reached. Handlers are stopped with `fenced`. The engine may still execute writes that were under way, which does no
   * harm: they are whole commits whose messages were never sent, and it refuses them once another node has the session.
   */
  abandonAll(): void {
    for (const session of this.#sessions)
      guard(session, () => {
        session.giveUp();
        session.record?.leave();
        this.#letGo(session, fencedError());
      });
  }

  get #sessions(): ServerEndpoint[] {
    const sessions = [...this.#options.sessions.values()];
    return sessions.filter(({ isDurable, hasEnded }) => isDurable && !hasEnded);
  }

  #isCalm(session: ServerEndpoint): boolean {
    return session.isAtRest((stream) => this.#options.parts().leaves(session, stream, 'record'));
  }

  #leave(session: ServerEndpoint): void {
    const { id } = session;
    if (this.#underWay.has(id)) return;
    const leaving = this.#giveUp(session).finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, leaving);
  }

  /** Never rejects. */
  async #giveUp(session: ServerEndpoint): Promise<void> {
    const { id } = session;
    // Messages of the client from now on are not acknowledged, so it sends them again elsewhere.
    session.holdInput();
    session.stopReading();
    await this.#within(session.running);
    await this.#within(session.recorded());
    if (session.hasEnded) return;
    this.#unsaid.add(id);
    session.giveUp();
    session.isElsewhere = true;
    session.record?.leave();
    // From now on, other nodes and sessions of this node wait for it. So nothing is refused while the engine learns of
    // it.
    this.#options.parts().moved(session, undefined);
    const isSaid = await this.#say(session);
    // It was abandoned meanwhile.
    if (!session.hasEnded) this.#letGo(session);
    if (isSaid) this.#unsaid.delete(id);
  }

  #letGo(session: ServerEndpoint, failure?: ProtocolError): void {
    session.isElsewhere = true;
    guard(session, () => session.loseWire(SERVICE_RESTART, 'the session continues at another node'));
    session.forget(failure);
    const fields = { event: 'session.given_up', session: session.id };
    this.#options.logger.info(fields, 'the session waits for another node');
  }

  /** Writes that another node may have the session. Returns whether that is written. */
  async #say({ id, epoch }: ServerEndpoint): Promise<boolean> {
    const { link, incarnation: from, timers, clock, logger } = this.#options;
    const end = clock.now() + SAY_MS;
    const write = () => link.moveSession(id, { from, epoch, to: NO_NODE, ttlMs: retentionMsOf(timers) });
    try {
      await persist(
        write,
        RETRY_MS,
        () => clock.now() < end,
        (ms) => this.#pause(ms),
      );
      return true;
    } catch (error) {
      // Others take the session when this process is gone.
      const fields = { event: 'records.stalled', session: id, err: loggable(error) };
      logger.warn(fields, 'the engine does not write that another node may have the session');
      return false;
    }
  }

  /** Resolves with `work`, or when that has taken too long. */
  async #within(work: Promise<unknown> | undefined): Promise<void> {
    if (work !== undefined) await Promise.race([work.catch(() => {}), this.#pause(RETURN_MS)]);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.after(ms, resolve));
  }
}
