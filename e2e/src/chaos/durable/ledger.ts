import { type Asked, Ledger } from '../cluster/ledger.js';
import type { DatedEffect } from './effects.js';
import { isRepeatable, repeatable } from './settings.js';

/**
 * The checker of durable sessions. It compares what users say, ask and get with what handlers have done outside, and knows
 * neither which node had a session nor its record. No session may be lost.
 */

/** The facts about the nodes that the ledger needs to judge the rest. */
export interface DurableFates {
  readonly killedPids: ReadonlySet<number>;
  /** When nodes were killed, paused or told to stop; Unix milliseconds. */
  readonly deaths: readonly number[];
  /** Until when a node that was told to stop may not end a handler, by process ID; Unix milliseconds. */
  readonly deadlines: ReadonlyMap<number, number>;
}

interface Message {
  /** When each handler of it began. */
  readonly at: number[];
  unmarked: number;
}

interface Start {
  readonly at: number;
  readonly pid: number;
  readonly attempt: number;
  readonly said: number;
}

/** Errors of a reply whose handler has died. */
const ENDED = ['interrupted', 'draining'];
/** Clocks of two processes may differ by this much, in milliseconds. */
const CLOCK_SLACK_MS = 50;
/** The longest time that a node is paused. */
export const MAX_PAUSE_MS = 9_000;

export class DurableLedger extends Ledger {
  /** Notes of the server by session. */
  readonly #notes = new Map<string, Map<string, number>>();
  readonly #flushed: { readonly session: string; readonly number: number; readonly at: number }[] = [];
  /** Sessions whose record was found to be wrong. */
  readonly #unequal = new Set<string>();
  readonly #askedAt = new Map<string, number>();
  readonly #failedAt = new Map<string, number>();
  readonly counts = { repeated: 0, redelivered: 0, interrupted: 0, continued: 0, flushed: 0 };

  override hear(name: string, text: string): void {
    if (!text.startsWith('note ')) return super.hear(name, text);
    this.arrived++;
    const { session } = this.user(name);
    const notes = this.#notes.get(session) ?? new Map<string, number>();
    this.#notes.set(session, notes);
    notes.set(text.slice(5), (notes.get(text.slice(5)) ?? 0) + 1);
  }

  override ask(name: string, parts: number): string {
    const id = super.ask(name, parts);
    this.#askedAt.set(id, Date.now());
    return id;
  }

  override failed(id: string, code: string): void {
    super.failed(id, code);
    this.#failedAt.set(id, Date.now());
  }

  /** Every other handler continues after the death of another one. */
  protected override newId(): string {
    const id = super.newId();
    return this.questions % 2 === 0 ? id : repeatable(id);
  }

  flushed(name: string, number: number): void {
    this.counts.flushed++;
    this.#flushed.push({ session: this.user(name).session, number, at: Date.now() });
  }

  /**
   * Compares the record of a session, at any moment.
   *
   * @param count in the application's state.
   * @param heard answers that the user had before the record was read.
   */
  recorded(session: string, handled: number, count: number, heard: number): void {
    if ((handled === count && heard <= count) || this.#unequal.has(session)) return;
    this.#unequal.add(session);
    if (heard > count) this.fault(session, `told but not recorded: ${heard} answers, and the count ${count}`);
    else this.fault(session, `the record has ${handled} handled messages and the count ${count}`);
  }

  /** Each session, and how many answers its user has heard. */
  get sessions(): readonly (readonly [session: string, heard: number])[] {
    return [...this.users.values()].map(({ session, heard }) => [session, heard]);
  }

  /** Notes that were recorded and that no user has received. */
  missingNotes(effects: readonly DatedEffect[]): readonly (readonly [session: string, note: string])[] {
    return effects.flatMap(({ effect }) => {
      if (effect[0] !== 'noted') return [];
      const [, session, note] = effect;
      return this.#notes.get(session)?.has(note) === true ? [] : [[session, note] as const];
    });
  }

  /** Checks everything, after all users have stopped. */
  examine(effects: readonly DatedEffect[], fates: DurableFates): readonly string[] {
    const messages = new Map<string, Message>();
    const starts = new Map<string, Start[]>();
    const losses: Loss[] = [];
    const isFenced = new Set<string>();
    for (const { at, pid, effect } of effects) {
      const [kind, subject] = effect;
      const place = `${pid} ${subject}`;
      switch (kind) {
        case 'fault':
          this.fault('handler', subject);
          break;
        case 'begin':
          isFenced.delete(place);
          break;
        case 'fenced':
          isFenced.add(place);
          losses.push({ at, pid, session: subject });
          break;
        case 'cut off':
          losses.push({ at, pid, session: undefined });
          break;
        case 'start':
          starts.set(subject, [
            ...(starts.get(subject) ?? []),
            { at, pid, attempt: effect[2], said: effect[3] },
          ]);
          break;
        case 'take':
          if (isFenced.has(place)) this.fault(subject, `${pid} handled a message after it was fenced`);
          this.#take(messages, at, effect);
      }
    }
    for (const { name, session, said, heard, lost } of this.users.values()) {
      if (lost !== undefined) this.fault(name, `lost its session ${session}: ${lost}`);
      else if (heard !== said) this.fault(name, `lost: ${heard} of ${said} messages came back`);
      for (let number = 1; number <= heard; number++)
        if (!messages.has(`${session} ${number}`)) this.fault(name, `message ${number} has had no effect`);
    }
    for (const { session, number, at } of this.#flushed) {
      const first = messages.get(`${session} ${number + 1}`)?.at[0] ?? Infinity;
      if (first > at + CLOCK_SLACK_MS)
        this.fault(session, `message ${number + 1} was acknowledged unhandled`);
    }
    this.#examineNotes(effects);
    for (const [id, asked] of this.asked)
      this.#examineQuestion(id, asked, starts.get(id) ?? [], losses, fates);
    for (const id of starts.keys()) if (!this.asked.has(id)) this.fault('handler', `${id} was never asked`);
    return this.faults;
  }

  #take(
    messages: Map<string, Message>,
    at: number,
    [, session, number, count, isRedelivered]: Extract<
      DatedEffect['effect'],
      readonly ['take', ...unknown[]]
    >,
  ): void {
    if (number !== count + 1) this.fault(session, `message ${number} came when ${count} were counted`);
    const key = `${session} ${number}`;
    const message = messages.get(key) ?? { at: [], unmarked: 0 };
    messages.set(key, message);
    message.at.push(at);
    if (isRedelivered) this.counts.redelivered++;
    else if (++message.unmarked > 1) this.fault(session, `message ${number} was handled again unmarked`);
    if (message.at.length === 2) this.counts.repeated++;
  }

  #examineNotes(effects: readonly DatedEffect[]): void {
    for (const [session, notes] of this.#notes)
      for (const [note, times] of notes) if (times > 1) this.fault(session, `doubled: note ${note}`);
    for (const [session, note] of this.missingNotes(effects))
      this.fault(session, `lost: note ${note}, which was recorded`);
  }

  #examineQuestion(
    id: string,
    { user: { name, session }, failure, isLeft, isOver, got, parts }: Asked,
    starts: readonly Start[],
    losses: readonly Loss[],
    { killedPids, deaths, deadlines }: DurableFates,
  ): void {
    const progress = `after ${got} of ${parts} parts`;
    if (!isOver) this.fault(name, `stuck: ${id} ${progress}`);
    if (starts.length === 0 && !isLeft && failure === undefined) this.fault(name, `${id} never began`);
    if (!isRepeatable(id) && starts.length > 1) this.fault(name, `${id} began ${starts.length} times`);
    // The lines of a node that was paused may come late.
    const calls = [...starts].sort((one, other) => one.attempt - other.attempt);
    calls.forEach(({ attempt, said }, i) => {
      const before = calls[i - 1];
      if (attempt === before?.attempt || said < (before?.said ?? 0))
        this.fault(name, `${id} began with attempt ${attempt} and ${said} parts, after ${i} others`);
    });
    if (calls.length > 1) this.counts.continued++;
    if (failure === undefined) return;
    if (!ENDED.includes(failure)) return this.fault(name, `${id} failed with ${failure} ${progress}`);
    this.counts.interrupted++;
    const failedAt = this.#failedAt.get(id) ?? Infinity;
    const last = calls.at(-1);
    const hasDied =
      last === undefined
        ? // It died between the record of its start and its first line.
          deaths.some((at) => at >= (this.#askedAt.get(id) ?? 0) - MAX_PAUSE_MS && at <= failedAt)
        : killedPids.has(last.pid) ||
          failedAt >= (deadlines.get(last.pid) ?? Infinity) - CLOCK_SLACK_MS ||
          losses.some(
            ({ at, pid, session: lost = session }) => pid === last.pid && lost === session && at >= last.at,
          );
    if (!hasDied) this.fault(name, `${id} failed with ${failure} ${progress}, although its handler lived`);
    // That it is called again is recorded with its first part at the latest.
    else if (isRepeatable(id) && got > 0)
      this.fault(name, `${id} failed with ${failure} ${progress}, although its handler is called again`);
  }
}

/** A node says that it no longer has a session. */
interface Loss {
  readonly at: number;
  readonly pid: number;
  /** `undefined` for all that it had: its lease is over, as it did not reach the engine in time, and others do. */
  readonly session: string | undefined;
}
