import type { FrameEvent } from '@parlance/client/inspect';
import { type Filter, shows } from './filter.js';
import type { Entry } from './store.js';

/** A line of the table: a frame, consecutive parts of one reply, or something that happened to the session. */
export interface Row {
  /** Of the first entry; stays the same while a run grows. */
  readonly number: number;
  readonly entries: Entry[];
}

/** The rows of a record, kept up to date as it grows and loses its beginning. */
export class Rows {
  #rows: Row[] = [];
  #filter: Filter;

  constructor(filter: Filter) {
    this.#filter = filter;
  }

  get all(): readonly Row[] {
    return this.#rows;
  }

  /** Frames that the rows show. */
  get frames(): number {
    let frames = 0;
    for (const { entries } of this.#rows) if (entries[0]?.event.event === 'frame') frames += entries.length;
    return frames;
  }

  rebuild(entries: readonly Entry[], filter: Filter): void {
    this.#filter = filter;
    this.#rows = [];
    this.add(entries);
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) {
      if (!shows(this.#filter, entry)) continue;
      const last = this.#rows.at(-1);
      if (last !== undefined && this.#filter.joins && isSameRun(last.entries[0] as Entry, entry)) {
        last.entries.push(entry);
      } else this.#rows.push({ number: entry.number, entries: [entry] });
    }
  }

  /**
   * The record has lost everything before this entry.
   *
   * @returns how many rows have gone.
   */
  drop(first: Entry | undefined): number {
    const least = first?.number ?? Infinity;
    let gone = 0;
    for (const row of this.#rows) {
      while (row.entries[0] !== undefined && row.entries[0].number < least) row.entries.shift();
      if (row.entries.length > 0) break;
      gone++;
    }
    this.#rows.splice(0, gone);
    return gone;
  }

  /** Index of the row that has this entry; -1 if none has. */
  indexOf(number: number): number {
    let [low, high] = [0, this.#rows.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const { entries } = this.#rows[middle] as Row;
      if ((entries[0]?.number ?? 0) > number) high = middle - 1;
      else if ((entries.at(-1)?.number ?? 0) < number) low = middle + 1;
      else return middle;
    }
    return -1;
  }
}

function isSameRun({ event: first }: Entry, { event }: Entry): boolean {
  return (
    isPart(first) && isPart(event) && first.streamId === event.streamId && first.direction === event.direction
  );
}

function isPart(event: Entry['event']): event is FrameEvent {
  return event.event === 'frame' && event.label === 'chunk' && event.error === undefined;
}

export interface Sum {
  readonly wire: number;
  /** `undefined` if no content is known. */
  readonly content: number | undefined;
  readonly text: string;
  /** The one that most frames have. */
  readonly codec: string | undefined;
  readonly again: number;
}

/** Text of a run that is shown, in UTF-16 units. */
const MAX_TEXT = 64 * 1024;

/** The sizes and the text of a row of frames. */
export function sumOf({ entries }: Row, maxText = MAX_TEXT): Sum {
  let wire = 0;
  let content: number | undefined;
  let text = '';
  let again = 0;
  const codecs = new Map<string, number>();
  for (const { event } of entries) {
    if (event.event !== 'frame') continue;
    wire += event.sizes.frame;
    if (event.sizes.content !== undefined) content = (content ?? 0) + event.sizes.content;
    if (text.length < maxText) text += event.preview ?? '';
    if (event.isReplayed) again++;
    if (event.codec !== undefined) codecs.set(event.codec, (codecs.get(event.codec) ?? 0) + 1);
  }
  const [codec] = [...codecs].sort(([, a], [, b]) => b - a)[0] ?? [];
  return { wire, content, text: text.slice(0, maxText), codec, again };
}
