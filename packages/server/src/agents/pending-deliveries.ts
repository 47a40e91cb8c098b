import type { Undeliverable } from '@parlance/protocol';
import type { Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';

/** A one-way message that was given to another session. */
export interface HandOver {
  readonly source: ServerEndpoint;
  /** As the sender named it. */
  readonly to: string;
  /** Which of the sender's messages to that name it is. */
  readonly ordinal: number | undefined;
  /** What it costs of the sender's credit until it is written. */
  readonly charge: number;
  /** Of the memory that it takes until then, if it had to be coded again. */
  readonly reservation: Reservation | undefined;
}

interface Kept extends HandOver {
  /** Number of its last frame, 0 until that is written. */
  frame: number;
}

/** What of a session's one-way messages from others it has not confirmed, in order. */
export class HandOvers {
  readonly #kept: Kept[] = [];
  /** Index of the first that is not confirmed, and of the first that is not written. */
  #head = 0;
  #unwritten = 0;

  add({ source, to, ordinal, charge, reservation }: HandOver): void {
    this.#kept.push({ source, to, ordinal, charge, reservation, frame: 0 });
  }

  /** The one that was added last could not be given. */
  takeBack(): void {
    this.#kept.pop();
  }

  /**
   * The oldest one that waited is written; returns it.
   *
   * @param frame number of its last frame.
   * @param confirmed frames that the session has confirmed.
   */
  written(frame: number, confirmed: number): HandOver | undefined {
    const kept = this.#kept[this.#unwritten];
    if (kept === undefined) return undefined;
    this.#unwritten++;
    kept.frame = frame;
    this.#forget(confirmed);
    return kept;
  }

  /** Those that were not written. */
  waiting(): readonly HandOver[] {
    return this.#kept.slice(this.#unwritten);
  }

  /** The session is lost: what has to be told to whom, neighbours in one report. */
  lost(confirmed: number): { readonly source: ServerEndpoint; readonly report: Undeliverable }[] {
    this.#forget(confirmed);
    const reports: {
      source: ServerEndpoint;
      report: { -readonly [Key in keyof Undeliverable]: Undeliverable[Key] };
    }[] = [];
    /** The last report by sender: order is kept for each of them, not between them. */
    const latest = new Map<ServerEndpoint, (typeof reports)[number]>();
    for (const { source, to, ordinal, frame } of this.#kept.slice(this.#head)) {
      const outcome = frame === 0 ? 'not_sent' : 'unknown';
      const last = latest.get(source)?.report;
      const next = last?.first === undefined ? undefined : last.first + last.count;
      if (last !== undefined && last.to === to && last.outcome === outcome && next === ordinal) {
        last.count++;
        continue;
      }
      const entry = {
        source,
        report: { to, outcome, reason: 'peer_gone', first: ordinal, count: 1 } as const,
      };
      latest.set(source, entry);
      reports.push(entry);
    }
    this.#kept.length = 0;
    return reports;
  }

  #forget(confirmed: number): void {
    const kept = this.#kept;
    while (this.#head < this.#unwritten && (kept[this.#head] as Kept).frame <= confirmed) this.#head++;
    // Shifting a long array for every message would be quadratic.
    if (this.#head < COMPACT_AT || this.#head * 2 < kept.length) return;
    kept.splice(0, this.#head);
    this.#unwritten -= this.#head;
    this.#head = 0;
  }
}

const COMPACT_AT = 256;

/** Counts the messages of one session by the name that they are for. */
export class Ordinals {
  readonly #counts = new Map<string, number>();
  #hasForgotten = false;

  /** The number of the next message for `name`, from 1 on; `undefined` where it may be wrong. */
  next(name: string): number | undefined {
    const count = this.#counts.get(name);
    if (count === undefined && this.#counts.size >= MAX_NAMES) {
      // Names are the sender's to make up, so they are not kept without bound.
      this.#counts.clear();
      this.#hasForgotten = true;
    }
    this.#counts.set(name, (count ?? 0) + 1);
    return this.#hasForgotten ? undefined : (count ?? 0) + 1;
  }
}

const MAX_NAMES = 1024;
