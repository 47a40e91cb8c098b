import { isProtocolError, type Logger } from '@parlance/protocol';
import { guard, loggable, systemClock } from '@parlance/protocol/internal';
import type { AgentMoves } from '../agents/moves.js';
import type { BackplaneLink } from '../backplane/backplane.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { KnownNode } from './membership.js';
import { MoveChannel, type MoveDialing, MoveRefused, STEP_MS } from './move-channel.js';
import { encodeMoved, isMovable } from './moved-session.js';

export interface DepartureHost {
  /** This node. */
  readonly incarnation: string;
  readonly link: BackplaneLink;
  readonly logger: Logger;
  /** How long a record lasts, in milliseconds. */
  readonly recordMs: number;
  dialing(target: KnownNode): MoveDialing;
  /** Moves agents; `undefined` without any. */
  readonly agents: AgentMoves | undefined;
  /** Calls `onSession` again for a session that stays. */
  run(session: ServerEndpoint): void;
  /** This node is being closed. */
  readonly isClosed: boolean;
}

/**
 * `moved`; `stays`, because it was not quiet for long enough, or the other node could not be asked; or `refused`, by the
 * other node, with a code.
 */
export type DepartureOutcome =
  | { readonly type: 'moved' }
  | { readonly type: 'stays'; readonly why: string }
  | { readonly type: 'refused'; readonly code: string };

/** How long the client is made to wait for handlers that are about to end, in milliseconds. */
const QUIET_MS = 200;
/** How long `onSession` may take to return, in milliseconds. */
const RETURN_MS = 1_000;
const LOOK_MS = 2;
const RETRY_MS = 250;

/** One attempt to hand a session over to another node. */
export class Departure {
  readonly #session: ServerEndpoint;
  readonly #target: KnownNode;
  readonly #host: DepartureHost;
  #hasStopped = false;

  constructor(session: ServerEndpoint, target: KnownNode, host: DepartureHost) {
    this.#session = session;
    this.#target = target;
    this.#host = host;
  }

  /** @param isLed whether the other node leads the connection of the client. Never rejects. */
  async run(isLed: boolean): Promise<DepartureOutcome> {
    let channel: MoveChannel | undefined;
    try {
      channel = await MoveChannel.open(this.#host.dialing(this.#target));
      return await this.#move(channel, isLed);
    } catch (error) {
      return this.#explain(error);
    } finally {
      channel?.close();
      if (this.#session.hasMoved) this.#leave();
      else this.#stay();
    }
  }

  async #move(channel: MoveChannel, isLed: boolean): Promise<DepartureOutcome> {
    const session = this.#session;
    const { wire, id, epoch } = session;
    const { agents } = this.#host;
    if (isLed !== (wire !== undefined)) return stays('its connection has come or gone');
    agents?.hold(session);
    // A client can answer what others have asked only while it is not held itself.
    const isAnswered = () => agents?.isQuiet(session) !== false;
    await until(() => session.wire !== wire || isAnswered(), QUIET_MS);
    if (isLed) {
      channel.send({ type: 'hold', session: id });
      const { bytes } = await channel.expect('held');
      const hasAll = () => session.wire !== wire || session.wireBytes.received >= bytes;
      if (!(await until(hasAll, STEP_MS))) return stays('not everything has arrived');
    }
    const isQuiet = () => agents?.isQuiet(session) !== false && isCalm(session, agents);
    if (!(await until(() => session.wire !== wire || isQuiet(), QUIET_MS))) return stays('not quiet');
    if (!(await this.#stopReading())) return stays('onSession has not returned');
    if (session.wire !== wire || !isQuiet() || !isMovable(session)) return stays('not quiet');
    session.freeze();
    const bytes = encodeMoved(session, agents?.stateOf(session), systemClock.now());
    const sent = isLed ? session.wireBytes.sent : 0;
    channel.send({ type: 'snapshot', session: id, size: bytes.length, sent, epoch });
    try {
      await channel.sendBytes(bytes);
      await channel.expect('taken');
      session.hasMoved = true;
    } catch (error) {
      if (error instanceof MoveRefused) {
        // It may have written the record although it had no answer.
        if (error.code === 'timeout') void this.#repair(this.#target.incarnation, epoch);
        throw error;
      }
      channel.close();
      session.hasMoved = !(await this.#reclaim());
      if (!session.hasMoved) throw error;
    }
    return { type: 'moved' };
  }

  /** Returns whether `onSession` has returned. */
  async #stopReading(): Promise<boolean> {
    const session = this.#session;
    const { running } = session;
    this.#hasStopped = true;
    session.stopReading();
    if (running === undefined) return true;
    return await until(() => session.running === undefined, RETURN_MS);
  }

  #leave(): void {
    const session = this.#session;
    guard(session, () => this.#host.agents?.handleMoved(session, this.#target.incarnation));
    session.forget();
  }

  #stay(): void {
    const session = this.#session;
    session.thaw();
    guard(session, () => this.#host.agents?.release(session));
    // One that has not returned yet is not called again: the session moves when it does.
    if (this.#hasStopped && session.running === undefined && !session.hasEnded) this.#host.run(session);
  }

  /**
   * Nobody knows whether the other node has taken the session. Writes that it stays here, unless it has.
   *
   * @returns whether it stays.
   */
  async #reclaim(): Promise<boolean> {
    const { incarnation, link, recordMs: ttlMs } = this.#host;
    const session = this.#session;
    while (!this.#host.isClosed) {
      try {
        const move = { from: incarnation, epoch: session.epoch, to: incarnation, ttlMs };
        const { owner, epoch } = await link.moveSession(session.id, move);
        if (owner === incarnation) session.epoch = epoch;
        return owner === incarnation;
      } catch {
        await new Promise<void>((resolve) => void setTimeout(resolve, RETRY_MS).unref());
      }
    }
    return true;
  }

  /** The other node does not have the session, whatever the record says. Never rejects. */
  async #repair(target: string, before: number): Promise<void> {
    const { incarnation: to, link, recordMs: ttlMs } = this.#host;
    const session = this.#session;
    while (!this.#host.isClosed && !session.hasEnded && session.epoch === before) {
      try {
        const mine = await link.moveSession(session.id, { from: to, epoch: before, to, ttlMs });
        const isTheirs = mine.owner === target && mine.epoch === before + 1;
        const { owner, epoch } = isTheirs
          ? await link.moveSession(session.id, { from: target, epoch: mine.epoch, to, ttlMs })
          : mine;
        if (owner === to) session.epoch = epoch;
        return;
      } catch {
        await new Promise<void>((resolve) => void setTimeout(resolve, RETRY_MS).unref());
      }
    }
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
    this.#host.logger[isExpected ? 'info' : 'error'](fields, 'a session could not go to another node yet');
    if (error instanceof MoveRefused) return { type: 'refused', code: error.code };
    return stays(isProtocolError(error) ? error.message : 'a fault');
  }
}

/** Whether the session could move, but for what is under way between it and others. */
export function isCalm(session: ServerEndpoint, agents: AgentMoves | undefined): boolean {
  return session.isQuiet((streamId) => agents?.isWatch(session, streamId) === true);
}

function stays(why: string): DepartureOutcome {
  return { type: 'stays', why };
}

/** Waits until `holds`. Returns whether it did in time. */
export async function until(holds: () => boolean, ms: number): Promise<boolean> {
  const end = systemClock.now() + ms;
  while (!holds()) {
    if (systemClock.now() >= end) return false;
    await new Promise<void>((resolve) => void setTimeout(resolve, LOOK_MS));
  }
  return true;
}
