import { isProtocolError, type Logger } from '@parlance/protocol';
import { loggable, systemClock, type Wire } from '@parlance/protocol/internal';
import { persist } from '../../base/repeat.js';
import type { EngineConnection } from '../../engine/engine.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { LeavingHooks } from '../../session/hooks.js';
import { countField } from '../link/message.js';
import type { KnownNode } from '../membership.js';
import type { SessionProxy } from '../proxies/session-proxy.js';
import { type Handover, MoveRefused, STEP_MS } from './handover.js';
import { encodeMoved, isMovable } from './moved-session.js';

export interface DepartureOptions {
  /** This node. */
  readonly incarnation: string;
  link(): EngineConnection;
  readonly logger: Logger;
  /** How long a record lasts, in milliseconds. */
  readonly retentionMs: number;
  readonly host: Pick<MovingHost, 'parts' | 'run'>;
  /** `undefined` if the other node cannot take another session now. Close it. */
  begin(target: KnownNode): Handover | undefined;
  /** This node is being closed. */
  isClosed(): boolean;
}

/** The server, as moves use it. */
export interface MovingHost {
  readonly sessions: ReadonlyMap<string, ServerEndpoint>;
  /** Complete once all parts are installed. */
  readonly parts: LeavingHooks;
  /** Calls `onSession` again for a session that stays. */
  run(session: ServerEndpoint): void;
  /**
   * @throws {ProtocolError} if the session cannot continue here: `draining`, `unsupported`, `over_budget` and others.
   */
  restore(bytes: Uint8Array, sessionId: string, proxy: SessionProxy | undefined): Promise<MovedHere>;
}

/** A session of another node that was restored and has not begun. */
export interface MovedHere {
  readonly session: ServerEndpoint;
  /** From now on the session is here, and with `proxy` the client's connection is its own. @param from the node that had it. */
  begin(proxy: SessionProxy | undefined, from: string): void;
  /** The session stays where it was. */
  discard(): void;
}

/**
 * `moved`; `stays`, because it was not quiet for long enough, or the other node could not be asked; or `refused`, by the
 * other node, with a code.
 */
export type DepartureOutcome =
  /** @param heldMs how long its client had to wait; `undefined` without a connection. */
  | { readonly type: 'moved'; readonly heldMs: number | undefined }
  | { readonly type: 'stays'; readonly why: string }
  | { readonly type: 'refused'; readonly code: string };

/** How long `onSession` may take to return, in milliseconds. */
const RETURN_MS = 1_000;
/** How often it is asked whether other nodes are quiet, in milliseconds. */
const LOOK_MS = 5;
const RETRY_MS = 250;

/** One attempt to hand a session over to another node. */
export class Departure {
  readonly #session: ServerEndpoint;
  readonly #target: KnownNode;
  readonly #options: DepartureOptions;
  /** How long other nodes may take to send nothing more, in milliseconds. */
  readonly #patienceMs: number;
  /** While the session is held. */
  #handover: Handover | undefined;
  #hasStopped = false;
  #wake: () => void = () => {};

  constructor(session: ServerEndpoint, target: KnownNode, options: DepartureOptions, patienceMs: number) {
    this.#session = session;
    this.#target = target;
    this.#options = options;
    this.#patienceMs = patienceMs;
  }

  /** Something about the session has changed. */
  handleChange(): void {
    this.#wake();
  }

  /**
   * A session that is quiet is held before this returns.
   *
   * @param isProxied whether the other node is the proxy of the client. Never rejects.
   */
  async run(isProxied: boolean): Promise<DepartureOutcome> {
    try {
      const { wire } = this.#session;
      if (isProxied !== (wire !== undefined)) return stays(CHANGED);
      this.#options.host.parts.hold(this.#session);
      // Messages of the client from now on are for the other node, so that a client in a hurry does not keep its
      // session here.
      const isOver = () => this.#session.wire !== wire || this.#begin();
      if (!(await this.#until(isOver, this.#patienceMs))) return stays('not quiet');
      if (this.#handover === undefined) return stays(CHANGED);
      const since = systemClock.now();
      await this.#move(this.#handover, wire);
      return { type: 'moved', heldMs: isProxied ? Math.round(systemClock.now() - since) : undefined };
    } catch (error) {
      return error instanceof Stays ? stays(error.message) : this.#explain(error);
    } finally {
      this.#handover?.close();
      if (this.#session.hasMoved) this.#leave();
      else this.#stay();
    }
  }

  get #isQuiet(): boolean {
    const { parts } = this.#options.host;
    return parts.isQuiet(this.#session) && isCalm(this.#session, parts);
  }

  /** Holds the session, if it is quiet and the other node can take it. */
  #begin(): boolean {
    if (!this.#isQuiet) return false;
    this.#handover = this.#options.begin(this.#target);
    if (this.#handover === undefined) return false;
    this.#session.holdInput();
    return true;
  }

  /** @throws {Stays} @throws {MoveRefused} @throws {ProtocolError} if the session stays. */
  async #move(handover: Handover, wire: Wire | undefined): Promise<void> {
    const session = this.#session;
    const { id, epoch } = session;
    if (session.wire !== wire) throw new Stays(CHANGED);
    if (wire !== undefined) {
      const passed = countField((await handover.ask('hold', [id], 'held'))[0]);
      const hasAll = () => session.wire !== wire || session.wireBytes.received >= passed;
      if (!(await this.#until(hasAll, STEP_MS))) throw new Stays('not everything has arrived');
    }
    if (session.wire !== wire) throw new Stays(CHANGED);
    if (!(await this.#stopReading())) throw new Stays('onSession has not returned');
    if (session.wire !== wire) throw new Stays(CHANGED);
    if (!this.#isQuiet || !isMovable(session)) throw new Stays('not quiet');
    session.freeze();
    const bytes = encodeMoved(session, this.#options.host.parts.save(session), systemClock.now());
    const sent = wire === undefined ? 0 : session.wireBytes.sent;
    try {
      await handover.ask('snapshot', [id, bytes.length, sent, epoch], 'taken', bytes);
      session.hasMoved = true;
    } catch (error) {
      if (error instanceof MoveRefused) throw error;
      handover.close();
      session.hasMoved = !(await this.#reclaim());
      if (!session.hasMoved) throw error;
    }
  }

  /** Waits until `holds`. Returns whether it did in time. */
  async #until(holds: () => boolean, ms: number): Promise<boolean> {
    const end = systemClock.now() + ms;
    let isDone = holds();
    while (!isDone) {
      if (systemClock.now() >= end) return false;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, LOOK_MS);
        // At once, before anything else arrives.
        this.#wake = () => {
          isDone = holds();
          if (!isDone) return;
          this.#wake = () => {};
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = () => {};
      isDone ||= holds();
    }
    return true;
  }

  /** Returns whether `onSession` has returned. */
  async #stopReading(): Promise<boolean> {
    const session = this.#session;
    const { running } = session;
    this.#hasStopped = true;
    session.stopReading();
    if (running === undefined) return true;
    return await this.#until(() => session.running === undefined, RETURN_MS);
  }

  #leave(): void {
    const session = this.#session;
    this.#options.host.parts.moved(session, this.#target.incarnation);
    session.forget();
  }

  #stay(): void {
    const session = this.#session;
    session.thaw();
    this.#options.host.parts.release(session);
    // One that has not returned yet is not called again: the session moves when it does.
    if (this.#hasStopped && session.running === undefined && !session.hasEnded)
      this.#options.host.run(session);
  }

  /**
   * It is not known whether the other node has taken the session. Writes that it stays here, unless it has.
   *
   * @returns whether it stays.
   */
  async #reclaim(): Promise<boolean> {
    const { incarnation, retentionMs: ttlMs } = this.#options;
    const session = this.#session;
    const write = async () => {
      const move = { from: incarnation, epoch: session.epoch, to: incarnation, ttlMs };
      const { owner, epoch } = await this.#options.link().moveSession(session.id, move);
      if (owner === incarnation) session.epoch = epoch;
      return owner === incarnation;
    };
    return await persist(write, RETRY_MS, () => !this.#options.isClosed()).catch(() => true);
  }

  #explain(error: unknown): DepartureOutcome {
    const { id } = this.#session;
    const fields = {
      event: 'move.failed',
      session: id,
      node: this.#target.incarnation,
      err: loggable(error),
    };
    const isExpected = error instanceof MoveRefused || isProtocolError(error);
    this.#options.logger[isExpected ? 'info' : 'error'](fields, 'a session could not go to another node yet');
    if (error instanceof MoveRefused) return { type: 'refused', code: error.code };
    return stays(isProtocolError(error) ? error.message : 'a fault');
  }
}

/** Whether the session could move, but for what is under way between it and others. */
export function isCalm(session: ServerEndpoint, parts: LeavingHooks): boolean {
  return session.isQuiet((streamId) => parts.leaves(session, streamId, 'move'));
}

function stays(why: string): DepartureOutcome {
  return { type: 'stays', why };
}

const CHANGED = 'its connection has come or gone';

/** The session cannot move at present. */
class Stays extends Error {}
