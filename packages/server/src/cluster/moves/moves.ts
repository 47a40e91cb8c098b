import { CloseCode, type Limits, type Logger, type Timers } from '@parlance/protocol';
import { incarnationOf, type MemoryBudget } from '@parlance/protocol/internal';
import type { Backplane, BackplaneLink } from '../../backplane/backplane.js';
import type { ServerWire } from '../../http/ws.js';
import type { Lead } from '../lead/lead.js';
import { limitedLog } from '../limited-log.js';
import type { KnownNode } from '../membership.js';
import { RecordKeeper } from '../record-keeper.js';
import { recordMsOf } from '../recorded.js';
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
  /** Of sessions that have come from other nodes, or outlive this one. */
  readonly records: RecordKeeper;
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
    const { sessions } = host;
    this.records = new RecordKeeper({ incarnation, sessions, link, recordMs, logger });
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
