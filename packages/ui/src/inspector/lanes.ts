import type { FrameEvent } from '@parlance/client/inspect';
import { type LaneName, laneOf } from './filter.js';
import { type Entry, isFailure } from './store.js';

/** The record as lanes: one for the session, one for one-way messages, and one for each stream. */

export interface Tick {
  readonly at: number;
  readonly direction: FrameEvent['direction'];
  /** Not just a part: it begins or ends something. */
  readonly isStrong: boolean;
  readonly isFailed: boolean;
}

export interface Lane {
  readonly name: LaneName;
  readonly label: string;
  readonly ticks: Tick[];
  /** Unix milliseconds. */
  begin: number;
  end: number;
}

/** Time without a connection. */
export interface Gap {
  readonly from: number;
  /** `undefined` while it lasts. */
  to: number | undefined;
}

const MAX_LABEL = 40;

export class Lanes {
  readonly #lanes = new Map<LaneName, Lane>();
  #gaps: Gap[] = [];

  /** The session, then the streams in the order in which they began. */
  get all(): readonly Lane[] {
    const session = this.#lanes.get('session');
    const streams = [...this.#lanes.values()].filter((lane) => lane !== session);
    return session === undefined ? streams : [session, ...streams];
  }

  get gaps(): readonly Gap[] {
    return this.#gaps;
  }

  clear(): void {
    this.#lanes.clear();
    this.#gaps = [];
  }

  add(entries: readonly Entry[]): void {
    for (const { at, event } of entries) {
      if (event.event === 'frame') this.#tick(at, event);
      else this.#follow(at, event);
    }
  }

  /** Forgets what was before `begin`, in Unix milliseconds. */
  drop(begin: number): void {
    for (const [name, lane] of this.#lanes) {
      const kept = lane.ticks.findIndex(({ at }) => at >= begin);
      if (kept > 0) lane.ticks.splice(0, kept);
      if (kept < 0) this.#lanes.delete(name);
      else lane.begin = Math.max(lane.begin, begin);
    }
    this.#gaps = this.#gaps.filter(({ to }) => to === undefined || to >= begin);
  }

  #tick(at: number, event: FrameEvent): void {
    if (event.label === 'credit') return;
    const name = laneOf(event);
    const lane = this.#lanes.get(name) ?? {
      name,
      label: titleOf(name, event),
      ticks: [],
      begin: at,
      end: at,
    };
    this.#lanes.set(name, lane);
    const isStrong = event.label !== 'chunk' && event.label !== 'ack';
    lane.ticks.push({ at, direction: event.direction, isStrong, isFailed: isFailure(event) });
    lane.end = at;
  }

  #follow(at: number, event: Exclude<Entry['event'], FrameEvent>): void {
    const open = this.#gaps.at(-1);
    if (event.event === 'state' && event.state === 'suspended') this.#gaps.push({ from: at, to: undefined });
    else if ((event.event === 'state' || event.event === 'replay') && open?.to === undefined && open)
      open.to = at;
  }
}

function titleOf(name: LaneName, { label, preview }: FrameEvent): string {
  if (name === 'session') return 'session';
  if (name === 0) return 'messages';
  return `#${name} ${(preview && questionOf(preview)) || label}`;
}

/** The beginning of the last message of a chat request, or of any other text. */
function questionOf(preview: string): string {
  const asked = [...preview.matchAll(/"content":"((?:[^"\\]|\\.)*)/g)].at(-1)?.[1];
  return (asked ?? preview).replaceAll(/\s+/g, ' ').slice(0, MAX_LABEL);
}
