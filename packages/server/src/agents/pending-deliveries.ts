import type { ProtocolError, ReceivedBody, Undelivered } from '@parlance/protocol';
import type { Reservation } from '@parlance/protocol/internal';
import { type MessageSequence, ReceivedMarks } from './received-marks.js';
import type { RelayTarget } from './target.js';

/** A one-way message on its way to another session. */
export interface PendingDelivery extends MessageSequence {
  source: RelayTarget;
  /** The session has it, or its sender was notified that it has not. Safe to call again. */
  readonly onSettled?: (() => void) | undefined;
  /** Of a sender at another node, which keeps account of the message itself; `undefined` of one at this node. */
  remote?: RemoteDelivery | undefined;
  /** As the sender named it. */
  readonly to: string;
  /** Its number among the sender's messages to that name. */
  readonly ordinal: number | undefined;
  /** The sender's credit that it holds until it is written. */
  readonly charge: number;
  /** The memory that it takes until then, if it had to be coded again. */
  readonly reservation: Reservation | undefined;
}

/** Tells the node of a sender about its message. */
export interface RemoteDelivery {
  /** The session has it, and its record too, if it has one. */
  handleTaken(): void;
  handleWritten(): void;
  handleConfirmed(): void;
  /** It may arrive or not; the sender learns nothing more of it. */
  handleLost(): void;
  /** The session continues at another node, to which the sender's node sends the message again if necessary. */
  handleAway(): void;
  handleRefused(error: ProtocolError): void;
}

/** Of a message that was reported already. */
export const FORGOTTEN: RemoteDelivery = {
  handleTaken() {},
  handleWritten() {},
  handleConfirmed() {},
  handleLost() {},
  handleAway() {},
  handleRefused() {},
};

/** Messages of one session to one name, with consecutive numbers if those are known. */
export type MessageRange = readonly [to: string, first: number | undefined, count: number];

export interface Entry extends PendingDelivery {
  /** Number of its last frame, 0 until that is written. */
  frame: number;
  /** It was written before, on a link that was rebuilt, so the sender's credit was returned. */
  isReleased: boolean;
  /** The session has it already, so it is not written again. */
  readonly isKnown: boolean;
  /** It was sent, and may have arrived, on a connection that is lost. */
  isDoubtful: boolean;
  /** `undefined` as soon as it was called. */
  onSettled: (() => void) | undefined;
  /** The body to send again if the session continues elsewhere without the message. */
  body: ReceivedBody | undefined;
}

/** One-way messages to a session that it has not confirmed, in order. */
export class DeliveryLog {
  readonly #entries: Entry[] = [];
  /** Index of the first entry that is not confirmed, and of the first that is not written. */
  #head = 0;
  #unwritten = 0;

  add(entry: Entry): void {
    this.#entries.push(entry);
  }

  /**
   * Adds a message that the session has already. It counts as written and confirmed with what is before it.
   *
   * @returns those that count as written now.
   */
  addKnown(entry: Entry, confirmed: number): readonly Entry[] {
    this.#entries.push(entry);
    const written = this.#passKnown();
    this.#forget(confirmed);
    return written;
  }

  #passKnown(): readonly Entry[] {
    let passed: Entry[] | undefined;
    for (;;) {
      const entry = this.#entries[this.#unwritten];
      if (entry?.isKnown !== true) return passed ?? NONE;
      const before = this.#unwritten > this.#head ? this.#entries[this.#unwritten - 1] : undefined;
      entry.frame = before?.frame ?? 0;
      this.#unwritten++;
      if (!entry.isReleased) {
        passed ??= [];
        passed.push(entry);
      }
      entry.isReleased = true;
    }
  }

  /** The message that was added last could not be sent. */
  removeLast(): void {
    this.#entries.pop();
  }

  /**
   * A message is written, mostly the oldest one that was not.
   *
   * @param frame number of its last frame.
   * @param confirmed frames that the session has confirmed.
   * @returns the messages that are written now and were not written before.
   */
  handleWritten(entry: Entry, frame: number, confirmed: number): readonly Entry[] {
    if (this.#entries[this.#unwritten] !== entry) {
      // Another node had no memory for those before it yet.
      const at = this.#entries.indexOf(entry, this.#unwritten);
      if (at < 0) return [];
      this.#entries.splice(at, 1);
      this.#entries.splice(this.#unwritten, 0, entry);
    }
    this.#unwritten++;
    entry.frame = frame;
    const { isReleased } = entry;
    entry.isReleased = true;
    const known = this.#passKnown();
    this.#forget(confirmed);
    if (isReleased) return known;
    return known.length === 0 ? [entry] : [entry, ...known];
  }

  /** So many of the oldest messages that are not written may have arrived, and are sent again. */
  handleDoubt(count: number): void {
    for (const entry of this.#entries.slice(this.#unwritten, this.#unwritten + count))
      entry.isDoubtful = true;
  }

  /** Another node has refused the unwritten message at this place among them. Returns it. */
  removeUnwritten(place: number): PendingDelivery | undefined {
    const [entry] = this.#entries.splice(this.#unwritten + place, 1);
    return entry?.isReleased === false ? entry : undefined;
  }

  /** Forgets what the session has confirmed. */
  handleConfirmed(confirmed: number): void {
    this.#forget(confirmed);
  }

  /** The messages that were never written, of so many of the oldest ones. */
  unwritten(count = Infinity): readonly Entry[] {
    return this.#entries.slice(this.#unwritten, this.#head + count).filter(({ isReleased }) => !isReleased);
  }

  /** The session has a new link, which writes again what the former one had not confirmed. */
  handleRebuilt(confirmed: number): void {
    this.#forget(confirmed);
    this.#unwritten = this.#head;
    this.#passKnown();
    this.#forget(confirmed);
  }

  /**
   * Empties the log of a session that is lost. Returns the reports to send; consecutive messages share one.
   *
   * @param isCertain whether what is not known to be written was not.
   * @param count only so many messages, the oldest ones.
   */
  takeLosses(confirmed: number, isCertain = true, count = Infinity): readonly Loss[] {
    this.#forget(confirmed);
    const lost = this.#entries.splice(this.#head, count);
    this.#entries.splice(0, this.#head);
    this.#unwritten = Math.max(0, this.#unwritten - this.#head - lost.length);
    this.#head = 0;
    return reportsOf(lost, isCertain);
  }

  /** Empties the log of a session that another node has. */
  takeAll(): readonly Entry[] {
    const left = this.#entries.slice(this.#head);
    this.#entries.length = this.#head = this.#unwritten = 0;
    return left;
  }

  // --- of a session that moves

  get hasUnwritten(): boolean {
    return this.#unwritten < this.#entries.length;
  }

  /** The numbers of the last frames of messages that are written and not confirmed. */
  frames(confirmed: number): number[] {
    this.#forget(confirmed);
    return this.#entries.slice(this.#head, this.#unwritten).map(({ frame }) => frame);
  }

  /** Removes what is not written. */
  takeUnwritten(): PendingDelivery[] {
    return this.#entries.splice(this.#unwritten);
  }

  /**
   * Puts the written messages of another log in front of these, of which none is written. Their frames count from 1 on,
   * because another node tells how many are confirmed. Returns how many they are.
   */
  prepend(former: DeliveryLog, confirmed: number): number {
    former.#forget(confirmed);
    const written = former.#entries.slice(former.#head, former.#unwritten);
    for (const [i, entry] of written.entries()) entry.frame = i + 1;
    this.#entries.unshift(...written);
    this.#unwritten = written.length;
    return written.length;
  }

  /** Messages that another node has written, in order. */
  restore(source: RelayTarget, frames: readonly number[], remote: RemoteDelivery): void {
    const rest = { source, remote, to: '', ordinal: undefined, charge: 0, reservation: undefined };
    const place = { number: 0, isAgain: false };
    // Nothing tells that they are written again on a rebuilt link.
    for (const frame of frames)
      this.#entries.push({ ...newEntry({ ...rest, ...place }, true), frame, isReleased: true });
    this.#unwritten = this.#entries.length;
  }

  /** The messages of a sender that are not confirmed. */
  of(source: RelayTarget, confirmed: number): MessageRange[] {
    this.#forget(confirmed);
    const own = this.#entries.slice(this.#head).filter((entry) => entry.source === source && !entry.remote);
    return reportsOf(own, true).map(({ report: { to, first, count } }) => [to, first, count]);
  }

  /** Returns whether there are any of `source`, which from now on count as those of `other`. */
  replace(source: RelayTarget, other: RelayTarget): boolean {
    let isFound = false;
    for (const entry of this.#entries.slice(this.#head)) {
      if (entry.source !== source || entry.remote !== undefined) continue;
      entry.source = other;
      isFound = true;
    }
    return isFound;
  }

  #forget(confirmed: number): void {
    const entries = this.#entries;
    while (this.#head < this.#unwritten) {
      const { frame, remote } = entries[this.#head] as Entry;
      if (frame > confirmed) break;
      this.#head++;
      remote?.handleConfirmed();
    }
    // Removing the first entry of a long array for every message would be quadratic.
    if (this.#head < COMPACT_AT || this.#head * 2 < entries.length) return;
    entries.splice(0, this.#head);
    this.#unwritten -= this.#head;
    this.#head = 0;
  }
}

const COMPACT_AT = 256;
const NONE: readonly Entry[] = [];

/** @param body to be sent again if necessary. */
export function newEntry(delivery: PendingDelivery, isKnown: boolean, body?: ReceivedBody): Entry {
  // Field by field: spreading takes as long as all other work of the relay on a message.
  return {
    source: delivery.source,
    remote: delivery.remote,
    to: delivery.to,
    ordinal: delivery.ordinal,
    charge: delivery.charge,
    reservation: delivery.reservation,
    number: delivery.number,
    isAgain: delivery.isAgain,
    onSettled: delivery.onSettled,
    frame: 0,
    isReleased: false,
    isKnown,
    isDoubtful: false,
    body,
  };
}

/** Consecutive messages that are lost, and the report of that. */
export interface Loss {
  readonly source: RelayTarget;
  readonly report: Undelivered;
  readonly onSettled: readonly (() => void)[];
}

function reportsOf(entries: readonly Entry[], isCertain: boolean): readonly Loss[] {
  const reports: {
    source: RelayTarget;
    report: { -readonly [Key in keyof Undelivered]: Undelivered[Key] };
    onSettled: (() => void)[];
  }[] = [];
  /** The last report for each sender: order matters for each sender, not between them. */
  const latest = new Map<RelayTarget, (typeof reports)[number]>();
  for (const { source, remote, to, ordinal, isReleased, isDoubtful, isAgain, onSettled } of entries) {
    if (remote !== undefined) continue;
    // The page before may have received what was written.
    const mayHave = isReleased || isDoubtful || isAgain || !isCertain;
    const outcome = mayHave ? 'unknown' : 'not_sent';
    const before = latest.get(source);
    const last = before?.report;
    const next = last?.first === undefined ? undefined : last.first + last.count;
    if (last !== undefined && last.to === to && last.outcome === outcome && next === ordinal) {
      last.count++;
      if (onSettled !== undefined) before?.onSettled.push(onSettled);
      continue;
    }
    const report = { to, outcome, code: 'peer_gone', first: ordinal, count: 1 } as const;
    const addressed = { source, report, onSettled: onSettled === undefined ? [] : [onSettled] };
    latest.set(source, addressed);
    reports.push(addressed);
  }
  return reports;
}

export interface CounterState {
  readonly counts: readonly (readonly [name: string, count: number])[];
  readonly hasForgotten: boolean;
  /** The number of the last message to any name. */
  readonly last: number;
}

/** Counts the messages of one session by the name that they are addressed to. */
export class MessageCounter {
  readonly #counts = new Map<string, number>();
  #hasForgotten = false;
  #last = 0;

  /** The number of the next message to any name, from 1 on. */
  nextOfAll(): number {
    return ++this.#last;
  }

  /** The number of the next message for `name`, from 1 on; `undefined` if it may be wrong. */
  next(name: string): number | undefined {
    const count = this.#counts.get(name);
    if (count === undefined && this.#counts.size >= MAX_NAMES) {
      // A sender can make up any number of names, so the counts are bounded.
      this.#counts.clear();
      this.#hasForgotten = true;
    }
    this.#counts.set(name, (count ?? 0) + 1);
    return this.#hasForgotten ? undefined : (count ?? 0) + 1;
  }

  /** The counts from which another node continues. */
  state(): CounterState {
    return { counts: [...this.#counts], hasForgotten: this.#hasForgotten, last: this.#last };
  }

  restore({ counts, hasForgotten, last }: CounterState): void {
    this.#last = last;
    for (const [name, count] of counts.slice(0, MAX_NAMES)) this.#counts.set(name, count);
    this.#hasForgotten = hasForgotten || counts.length > MAX_NAMES;
  }
}

const MAX_NAMES = 1024;

/** The known state of the messages of one session. */
export interface PeerState {
  /** Messages to the session that it has not confirmed. */
  readonly deliveries: DeliveryLog;
  /** Counts the messages from the session. */
  readonly counter: MessageCounter;
  /** Which messages of others it has. */
  readonly heard: ReceivedMarks;
}

export function newPeer(): PeerState {
  return { deliveries: new DeliveryLog(), counter: new MessageCounter(), heard: new ReceivedMarks() };
}
