import { type Limits, type Logger, ProtocolError, type Timers } from '@parlance/protocol';
import { incarnationOf, loggable, type MemoryBudget, systemClock } from '@parlance/protocol/internal';
import type { Backplane, BackplaneLink } from '../../backplane/backplane.js';
import type { Lead } from '../lead/lead.js';
import { limitedLog } from '../limited-log.js';
import type { Link, LinkEnd } from '../link/link.js';
import { countField, malformed } from '../link/message.js';
import { dropFenced, recordMsOf } from '../recorded.js';
import { Arrival, refusalOf } from './arrival.js';
import type { MovedHere } from './departure.js';
import { Departures, type DeparturesOptions } from './departures.js';
import { MOVES, type MoveType } from './handover.js';

export interface MovesOptions extends Omit<DeparturesOptions, 'link' | 'recordMs'> {
  readonly backplane: Backplane;
  readonly memory: MemoryBudget;
  readonly limits: Limits;
  readonly timers: Timers;
  readonly leads: () => ReadonlySet<Lead>;
}

/** Sessions that come at a time. */
const MAX_ARRIVALS = 128;

/** The sessions that go from this node to others, and those that come from others. */
export class Moves {
  readonly #options: MovesOptions;
  readonly #arrivals = new Set<Arrival>();
  readonly #departures: Departures;
  readonly #arrivalLog: Logger;
  #link: BackplaneLink | undefined;
  #arrived = 0;
  #isDraining = false;
  #keptAt = systemClock.now();
  isClosed = false;

  constructor(options: MovesOptions) {
    this.#options = options;
    const { logger, links } = options;
    const recordMs = this.#recordMs;
    this.#departures = new Departures({ ...options, recordMs, link: () => this.#connected });
    this.#arrivalLog = limitedLog(logger);
    links.serve(MOVES, (to) => this.#accept(to));
  }

  get #connected(): BackplaneLink {
    this.#link ??= this.#options.backplane.connect();
    return this.#link;
  }
  get #recordMs(): number {
    return recordMsOf(this.#options.timers);
  }
  /** Sessions that have gone to other nodes, have come from others, or could not go. */
  get counts(): { readonly departed: number; readonly arrived: number; readonly failed: number } {
    return { ...this.#departures.counts, arrived: this.#arrived };
  }

  /**
   * The node that has a session that is not at the node that its ID names.
   *
   * @throws {ProtocolError} if the engine does not answer.
   */
  async find(sessionId: string): Promise<string | undefined> {
    if (incarnationOf(sessionId) === undefined) return undefined;
    return (await this.#connected.findSession(sessionId))?.owner;
  }

  /** The session may be here in a moment. */
  isArriving(sessionId: string): boolean {
    return [...this.#arrivals].some((arrival) => arrival.sessionId === sessionId);
  }

  // --- sessions that come

  #accept(link: Link): LinkEnd {
    const arrivals = new Map<number, Arrival>();
    return {
      handle: ({ type, fields: [first, ...fields], bytes }) => {
        const number = countField(first);
        if (!TYPES.has(type)) throw malformed();
        const known = arrivals.get(number);
        if (type === 'drop') return known?.handleDropped();
        if (known !== undefined) return known.handle(type, fields, bytes);
        // It does not come any more.
        if (type === 'bytes') return;
        const answer = (answered: MoveType, ...values: readonly unknown[]) =>
          link.answer(MOVES, answered, [number, ...values]);
        if (this.#isDraining || this.isClosed || this.#arrivals.size >= MAX_ARRIVALS)
          return answer('refused', ...refusalOf(new ProtocolError('draining', FULL)));
        const arrival = this.#arrive(link.node, answer, () => arrivals.delete(number));
        arrivals.set(number, arrival);
        arrival.handle(type, fields, bytes);
      },
      handleOver() {
        for (const arrival of arrivals.values()) arrival.handleDropped();
      },
    };
  }

  #arrive(
    source: string,
    answer: (type: MoveType, ...fields: readonly unknown[]) => void,
    onOver: () => void,
  ): Arrival {
    const { host, memory, limits, leads } = this.#options;
    const arrival = new Arrival(source, {
      answer,
      memory,
      logger: this.#arrivalLog,
      sessionMemory: limits.sessionMemory,
      leadOf: (sessionId, owner) =>
        [...leads()].find((lead) => lead.sessionId === sessionId && lead.owner === owner),
      restore: (bytes, { session, epoch }, lead) => {
        const moved = host.restore(bytes, session, lead);
        moved.session.epoch = epoch + 1;
        return moved;
      },
      claim: (sessionId, from, epoch) => this.#claim(sessionId, from, epoch),
      onArrived: (moved, lead) => this.#handleArrived(moved, lead, source),
      onOver: () => {
        this.#arrivals.delete(arrival);
        onOver();
      },
    });
    this.#arrivals.add(arrival);
    return arrival;
  }

  #handleArrived({ session }: MovedHere, lead: Lead | undefined, node: string): void {
    this.#arrived++;
    const event = lead === undefined ? 'session.parked' : 'session.moved';
    this.#options.logger.info({ event, session: session.id, node }, 'a session of another node goes on here');
  }

  async #claim(sessionId: string, from: string, epoch: number): Promise<boolean> {
    const to = this.#options.incarnation;
    const record = await this.#connected.moveSession(sessionId, { from, epoch, to, ttlMs: this.#recordMs });
    return record.owner === to && record.epoch === epoch + 1;
  }

  /** Keeps the records of sessions that have come from other nodes. Called once in a while. */
  handleTick(): void {
    const now = systemClock.now();
    if (now - this.#keptAt < this.#recordMs / 2) return;
    this.#keptAt = now;
    const kept = [...this.#options.host.sessions.values()].filter(
      ({ epoch, isDurable }) => epoch > 0 || isDurable,
    );
    for (const { durability } of kept) durability?.tidy();
    if (kept.length > 0) void this.#keep(new Map(kept.map(({ id, epoch }) => [id, epoch])));
  }

  /** The engine may have forgotten the records. */
  keepNow(): void {
    this.#keptAt = Number.NEGATIVE_INFINITY;
    this.handleTick();
  }

  async #keep(epochs: ReadonlyMap<string, number>): Promise<void> {
    try {
      const lost = await this.#connected.keepSessions(this.#options.incarnation, epochs, this.#recordMs);
      for (const sessionId of lost) {
        const { logger, host } = this.#options;
        const session = host.sessions.get(sessionId);
        if (session?.isDurable) {
          dropFenced(session, logger);
          continue;
        }
        const fields = { event: 'session.fenced', session: sessionId };
        logger.warn(fields, 'another node has the session; it ends here');
        session?.forget();
      }
    } catch (error) {
      const fields = { event: 'records.stalled', err: loggable(error) };
      this.#options.logger.warn(fields, 'the records of sessions that have moved could not be kept');
      // Before they expire.
      this.#keptAt = systemClock.now() - this.#recordMs / 4;
    }
  }

  // --- sessions that go

  /** Whether another node could take sessions. */
  get hasTargets(): boolean {
    return this.#departures.hasTargets;
  }

  /** From now on sessions go to other nodes, as soon as they can. @param deadline Unix milliseconds. */
  start(deadline: number): void {
    this.#isDraining = true;
    for (const arrival of this.#arrivals) arrival.cancel();
    this.#departures.start(deadline);
  }

  /** See {@link Departures.parkAll}. */
  async parkAll(timeoutMs: number): Promise<void> {
    await this.#departures.parkAll(timeoutMs);
  }

  /** No session goes or comes any more. */
  async close(): Promise<void> {
    this.isClosed = true;
    for (const arrival of this.#arrivals) arrival.cancel();
    await this.#departures.close();
    await this.#link?.close();
  }
}

const FULL = 'the node takes no sessions at present';
/** What a node may say of a session that it hands over. */
const TYPES: ReadonlySet<string> = new Set<MoveType>(['hold', 'snapshot', 'bytes', 'drop']);
