import type { ProtocolError, Undelivered } from '@parlance/protocol';
import type { Reservation } from '@parlance/protocol/internal';
import type { RelayTarget } from './target.js';

/** A one-way message on its way to another session. */
export interface PendingDelivery {
  source: RelayTarget;
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
  handleWritten(): void;
  handleConfirmed(): void;
  /** It may arrive or not, and nothing more will be known of it. */
  handleLost(): void;
  handleRefused(error: ProtocolError): void;
}

/** Messages of one session to one name, with consecutive numbers if those are known. */
export type MessageRange = readonly [to: string, first: number | undefined, count: number];

export interface Entry extends PendingDelivery {
  /** Number of its last frame, 0 until that is written. */
  frame: number;
  /** It was written before, on a link that was rebuilt, so the sender's credit was returned. */
  isReleased: boolean;
}

/** One-way messages to a session that it has not confirmed, in order. */
export class DeliveryLog {
  readonly #entries: Entry[] = [];
  /** Index of the first entry that is not confirmed, and of the first that is not written. */
  #head = 0;
  #unwritten = 0;

  add({ source, remote, to, ordinal, charge, reservation }: PendingDelivery): void {
    this.#entries.push({ source, remote, to, ordinal, charge, reservation, frame: 0, isReleased: false });
  }

  /** The message that was added last could not be sent. */
  removeLast(): void {
    this.#entries.pop();
  }

  /**
   * The oldest unwritten message is written. Returns it, unless it was written before.
   *
   * @param frame number of its last frame.
   * @param confirmed frames that the session has confirmed.
   */
  handleWritten(frame: number, confirmed: number): PendingDelivery | undefined {
    const entry = this.#entries[this.#unwritten];
    if (entry === undefined) return undefined;
    this.#unwritten++;
    entry.frame = frame;
    const { isReleased } = entry;
    entry.isReleased = true;
    this.#forget(confirmed);
    return isReleased ? undefined : entry;
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
  }

  /**
   * Empties the log of a session that is lost. Returns the reports to send; consecutive messages share one.
   *
   * @param isCertain whether what is not known to be written was not.
   * @param count only so many messages, the oldest ones.
   */
  takeLosses(
    confirmed: number,
    isCertain = true,
    count = Infinity,
  ): { readonly source: RelayTarget; readonly report: Undelivered }[] {
    this.#forget(confirmed);
    const lost = this.#entries.splice(this.#head, count);
    this.#entries.splice(0, this.#head);
    this.#unwritten = Math.max(0, this.#unwritten - this.#head - lost.length);
    this.#head = 0;
    return reportsOf(lost, isCertain);
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
    for (const frame of frames) this.#entries.push({ ...rest, frame, isReleased: true });
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

function reportsOf(
  entries: readonly Entry[],
  isCertain: boolean,
): { readonly source: RelayTarget; readonly report: Undelivered }[] {
  const reports: {
    source: RelayTarget;
    report: { -readonly [Key in keyof Undelivered]: Undelivered[Key] };
  }[] = [];
  /** The last report for each sender: order matters for each sender, not between them. */
  const latest = new Map<RelayTarget, (typeof reports)[number]>();
  for (const { source, remote, to, ordinal, isReleased } of entries) {
    if (remote !== undefined) continue;
    // The page before may have received what was written.
    const outcome = isReleased || !isCertain ? 'unknown' : 'not_sent';
    const last = latest.get(source)?.report;
    const next = last?.first === undefined ? undefined : last.first + last.count;
    if (last !== undefined && last.to === to && last.outcome === outcome && next === ordinal) {
      last.count++;
      continue;
    }
    const report = { to, outcome, reason: 'peer_gone', first: ordinal, count: 1 } as const;
    const addressed = { source, report };
    latest.set(source, addressed);
    reports.push(addressed);
  }
  return reports;
}

export interface CounterState {
  readonly counts: readonly (readonly [name: string, count: number])[];
  readonly hasForgotten: boolean;
}

/** Counts the messages of one session by the name that they are addressed to. */
export class MessageCounter {
  readonly #counts = new Map<string, number>();
  #hasForgotten = false;

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

  /** What another node goes on counting with. */
  state(): CounterState {
    return { counts: [...this.#counts], hasForgotten: this.#hasForgotten };
  }

  restore({ counts, hasForgotten }: CounterState): void {
    for (const [name, count] of counts.slice(0, MAX_NAMES)) this.#counts.set(name, count);
    this.#hasForgotten = hasForgotten || counts.length > MAX_NAMES;
  }
}

const MAX_NAMES = 1024;
