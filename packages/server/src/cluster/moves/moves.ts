import { CloseCode, type Limits, type Logger, type Timers } from '@parlance/protocol';
import { incarnationOf, loggable, type MemoryBudget, systemClock } from '@parlance/protocol/internal';
import type { Backplane, BackplaneLink } from '../../backplane/backplane.js';
import { limitedLog } from '../../base/limited-log.js';
import type { ServerWire } from '../../http/ws.js';
import { dropFenced, recordMsOf } from '../../session/on-record.js';
import type { Lead } from '../lead/lead.js';
import type { KnownNode } from '../membership.js';
import { Arrival, type Restored } from './arrival.js';
import { Departures, type MovedHere, type MovingHost } from './departures.js';
import type { MoveDialing } from './move-channel.js';
import { encodeMoveMessage } from './move-message.js';

export interface MovesOptions {
  readonly incarnation: string;
  readonly backplane: Backplane;
  readonly host: MovingHost;
  readonly memory: MemoryBudget;
  readonly limits: Limits;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly leads: () => ReadonlySet<Lead>;
  /** Whether the engine does not answer, as far as is known. */
  isStalled(): boolean;
  nodes(): Iterable<KnownNode>;
  dialing(target: KnownNode): MoveDialing;
}

/** Connections on which sessions come, at a time. */
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
    const { incarnation, logger, host, isStalled, nodes, dialing } = options;
    const link = () => this.#connected;
    const recordMs = this.#recordMs;
    this.#departures = new Departures({
      server: host,
      incarnation,
      logger,
      recordMs,
      isStalled,
      nodes,
      dialing,
      link,
    });
    this.#arrivalLog = limitedLog(logger);
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

  accept(wire: ServerWire, source: string): void {
    if (this.#isDraining || this.isClosed || this.#arrivals.size >= MAX_ARRIVALS) {
      const message = 'the node takes no sessions at present';
      wire.listen(IGNORED);
      wire.send(encodeMoveMessage({ type: 'refused', code: 'draining', message }));
      return wire.close(CloseCode.NORMAL, '');
    }
    const { host, memory, limits, leads } = this.#options;
    const arrival = new Arrival(wire, source, {
      memory,
      logger: this.#arrivalLog,
      sessionMemory: limits.sessionMemory,
      leadOf: (sessionId, owner) =>
        [...leads()].find((lead) => lead.sessionId === sessionId && lead.owner === owner),
      restore: (bytes, { session, epoch }, lead) => {
        const moved = host.restore(bytes, session, lead);
        moved.session.epoch = epoch + 1;
        return this.#restored(moved, source);
      },
      claim: (sessionId, from, epoch) => this.#claim(sessionId, from, epoch),
      onOver: () => this.#arrivals.delete(arrival),
    });
    this.#arrivals.add(arrival);
  }

  #restored(moved: MovedHere, source: string): Restored {
    return {
      begin: (lead) => {
        const { session } = moved;
        this.#arrived++;
        const fields = {
          event: lead === undefined ? 'session.parked' : 'session.moved',
          session: session.id,
          node: source,
        };
        this.#options.logger.info(fields, 'a session of another node goes on here');
        moved.begin(lead, source);
      },
      discard: () => moved.discard(),
    };
  }

  async #claim(sessionId: string, from: string, epoch: number): Promise<boolean | undefined> {
    const to = this.#options.incarnation;
    try {
      const record = await this.#connected.moveSession(sessionId, { from, epoch, to, ttlMs: this.#recordMs });
      return record.owner === to && record.epoch === epoch + 1;
    } catch {
      return undefined;
    }
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

const IGNORED = { onMessage() {}, onControl() {}, onData() {}, onDrain() {}, onClose() {}, onFault() {} };
