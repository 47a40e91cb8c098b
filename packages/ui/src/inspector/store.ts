import type { FrameEvent, InspectionEvent } from '@parlance/client/inspect';

/** The record, newest last: a ring, and totals of all that has passed through it. */

/** Frames that are kept; the oldest are dropped first. */
export const MAX_FRAMES = 5_000;
/** Other events that are kept. */
const MAX_OTHERS = 1_000;

export interface Entry {
  /** Counts all events since the record was cleared. */
  readonly number: number;
  /** Unix milliseconds. */
  readonly at: number;
  readonly event: InspectionEvent;
}

export interface Totals {
  readonly frames: number;
  /** In bytes, without those that were written again. */
  readonly content: number;
  /** In bytes. */
  readonly wire: number;
  /** Parts of replies, and their bytes on the wire. */
  readonly parts: number;
  readonly partBytes: number;
  readonly resumes: number;
  /** Time without a connection before the last resume, in milliseconds. */
  readonly lastGapMs: number | undefined;
  /** Frames of the ring that a resume has written again. */
  readonly again: number;
  /** Frames that a receiver refuses, and failed requests. */
  readonly errors: number;
}

const NOTHING: Totals = {
  frames: 0,
  content: 0,
  wire: 0,
  parts: 0,
  partBytes: 0,
  resumes: 0,
  lastGapMs: undefined,
  again: 0,
  errors: 0,
};

export class Store {
  #entries: Entry[] = [];
  #frames = 0;
  #next = 0;
  #totals = NOTHING;
  #dropped = 0;

  get entries(): readonly Entry[] {
    return this.#entries;
  }

  get totals(): Totals {
    return this.#totals;
  }

  /** Frames that were dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /** The time of the first event that is kept; 0 without any. */
  get begin(): number {
    return this.#entries[0]?.at ?? 0;
  }

  get end(): number {
    return this.#entries.at(-1)?.at ?? 0;
  }

  /** @returns how many of the oldest entries were dropped. */
  add(events: readonly InspectionEvent[]): number {
    for (const event of events) {
      this.#entries.push({ number: this.#next++, at: Date.parse(event.time), event });
      if (event.event === 'frame') this.#frames++;
      this.#count(event);
    }
    return this.#trim();
  }

  clear(): void {
    this.#entries = [];
    this.#frames = 0;
    this.#dropped = 0;
    this.#totals = NOTHING;
  }

  #trim(): number {
    let surplus = 0;
    let others = this.#entries.length - this.#frames;
    while (this.#frames > MAX_FRAMES || others > MAX_OTHERS) {
      if (this.#entries[surplus++]?.event.event === 'frame') {
        this.#frames--;
        this.#dropped++;
      } else others--;
    }
    if (surplus > 0) this.#entries.splice(0, surplus);
    return surplus;
  }

  #count(event: InspectionEvent): void {
    const now = this.#totals;
    if (event.event === 'replay') {
      const again = now.again + event.again;
      this.#totals = { ...now, resumes: now.resumes + 1, lastGapMs: event.gapMs, again };
    }
    if (event.event !== 'frame') return;
    const { sizes, isReplayed } = event;
    const isPart = event.label === 'chunk';
    this.#totals = {
      ...now,
      frames: now.frames + 1,
      wire: now.wire + sizes.frame,
      content: now.content + (isReplayed ? 0 : (sizes.content ?? 0)),
      parts: now.parts + (isPart && !isReplayed ? 1 : 0),
      partBytes: now.partBytes + (isPart ? sizes.frame : 0),
      errors: now.errors + (isFailure(event) ? 1 : 0),
    };
  }
}

export function isFailure({ error, label }: FrameEvent): boolean {
  return error !== undefined || label === 'error' || label === 'REJECT';
}
