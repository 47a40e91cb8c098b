import { type Limits, type Logger, ProtocolError, type Timers } from '@parlance/protocol';
import { incarnationOf, type MemoryBudget } from '@parlance/protocol/internal';
import { AtATime } from '../../base/at-a-time.js';
import { limitedLog } from '../../base/limited-log.js';
import type { Engine, EngineConnection } from '../../engine/engine.js';
import { NONCE_MS } from '../../session/admission/nonces.js';
import { retentionMsOf } from '../../session/durable-rules.js';
import type { Link, LinkEnd } from '../link/link.js';
import { countField, malformed } from '../link/message.js';
import type { SessionProxy } from '../proxies/session-proxy.js';
import { RecordKeeper } from '../record-keeper.js';
import { Arrival, refusalOf } from './arrival.js';
import type { MovedHere } from './departure.js';
import { Departures, type DeparturesOptions } from './departures.js';
import { MOVES, type MoveType } from './handover.js';

export interface MovesOptions extends Omit<DeparturesOptions, 'link' | 'retentionMs'> {
  readonly engine: Engine;
  readonly memory: MemoryBudget;
  readonly limits: Limits;
  readonly timers: Timers;
  readonly proxies: () => ReadonlySet<SessionProxy>;
}

/** Sessions that come at a time. */
const MAX_ARRIVALS = 128;
/** HELLOs that are written to the engine at a time, so that there is room for sessions that move. */
const MAX_BEGINNING = 64;

/** The sessions that go from this node to others, and those that come from others. */
export class Moves {
  readonly #options: MovesOptions;
  readonly #arrivals = new Set<Arrival>();
  readonly #departures: Departures;
  readonly #arrivalLog: Logger;
  readonly #beginning = new AtATime(MAX_BEGINNING);
  #link: EngineConnection | undefined;
  #arrived = 0;
  #isDraining = false;
  /** Of sessions that have come from other nodes, or outlive this one. */
  readonly records: RecordKeeper;
  isClosed = false;

  constructor(options: MovesOptions) {
    this.#options = options;
    const { logger, links } = options;
    const retentionMs = this.#retentionMs;
    const link = () => this.#connected;
    this.#departures = new Departures({ ...options, retentionMs, link });
    const { incarnation, host } = options;
    this.records = new RecordKeeper({ incarnation, sessions: host.sessions, link, retentionMs, logger });
    this.#arrivalLog = limitedLog(logger);
    links.serve(MOVES, (to) => this.#accept(to));
  }

  get #connected(): EngineConnection {
    this.#link ??= this.#options.engine.connect();
    return this.#link;
  }
  get #retentionMs(): number {
    return retentionMsOf(this.#options.timers);
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

  /**
   * Says which session a HELLO has begun, as a place: that of a session which has moved from nowhere.
   *
   * @returns the session that is said then.
   * @throws {ProtocolError} if the engine does not answer.
   */
  begins(key: string, sessionId: string, over: string | undefined): Promise<string> {
    const move = { to: sessionId, ttlMs: NONCE_MS };
    return this.#beginning.run(async () => {
      const said = await this.#connected.moveSession(key, { ...move, from: '', epoch: 0 });
      if (over === undefined || said.owner !== over) return said.owner;
      return (await this.#connected.moveSession(key, { ...move, from: over, epoch: said.epoch })).owner;
    });
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
    const { host, memory, limits, proxies } = this.#options;
    const arrival = new Arrival(source, {
      answer,
      memory,
      logger: this.#arrivalLog,
      sessionMemory: limits.sessionMemory,
      proxyOf: (sessionId, owner) =>
        [...proxies()].find((proxy) => proxy.sessionId === sessionId && proxy.owner === owner),
      restore: async (bytes, { session, epoch }, proxy) => {
        const moved = await host.restore(bytes, session, proxy);
        moved.session.epoch = epoch + 1;
        return moved;
      },
      claim: (sessionId, from, epoch) => this.#claim(sessionId, from, epoch),
      onArrived: (moved, proxy) => this.#handleArrived(moved, proxy, source),
      onOver: () => {
        this.#arrivals.delete(arrival);
        onOver();
      },
    });
    this.#arrivals.add(arrival);
    return arrival;
  }

  #handleArrived({ session }: MovedHere, proxy: SessionProxy | undefined, node: string): void {
    this.#arrived++;
    const event = proxy === undefined ? 'session.parked' : 'session.moved';
    this.#options.logger.info({ event, session: session.id, node }, 'a moved session continues here');
  }

  async #claim(sessionId: string, from: string, epoch: number): Promise<boolean> {
    const to = this.#options.incarnation;
    const record = await this.#connected.moveSession(sessionId, {
      from,
      epoch,
      to,
      ttlMs: this.#retentionMs,
    });
    return record.owner === to && record.epoch === epoch + 1;
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
/** Messages that a node may send about a session that it hands over. */
const TYPES: ReadonlySet<string> = new Set<MoveType>(['hold', 'snapshot', 'bytes', 'drop']);
