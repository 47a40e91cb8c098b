import type { FrameEvent } from '@parlance/client/inspect';
import type { Entry } from './store.js';
import { labelOf } from './words.js';

export interface Filter {
  /** In lower case; every word must be found. `#3` is a stream. */
  readonly words: readonly string[];
  /** Join consecutive parts of a reply. */
  readonly joins: boolean;
  /** Show frames that only maintain the session. */
  readonly housekeeping: boolean;
  /** Show only this stream; `session` stands for control messages. */
  readonly lane: LaneName | undefined;
  /** Show only this time, in Unix milliseconds. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
}

/** `session`, or the number of a stream. */
export type LaneName = 'session' | number;

export const NO_FILTER: Filter = {
  words: [],
  joins: true,
  housekeeping: false,
  lane: undefined,
  range: undefined,
};

const HOUSEKEEPING: ReadonlySet<string> = new Set(['ack', 'credit', 'PING', 'PONG']);

export function shows({ words, housekeeping, lane, range }: Filter, { at, event }: Entry): boolean {
  if (range !== undefined && (at < range.from || at > range.to)) return false;
  if (event.event !== 'frame') return lane === undefined && words.length === 0 && !isDetail(event);
  if (!housekeeping && HOUSEKEEPING.has(event.label) && event.error === undefined) return false;
  if (lane !== undefined && laneOf(event) !== lane) return false;
  return words.length === 0 || matches(event, words);
}

/** Another event says as much. */
function isDetail(event: Entry['event']): boolean {
  if (event.event === 'connection') return event.what === 'opening';
  return event.event === 'state' && event.isResumed === true;
}

/** The lane of the time line that a frame belongs to. */
export function laneOf({ kind, streamId, label }: FrameEvent): LaneName {
  if (kind === 'control' || label === 'ack' || streamId === undefined) return 'session';
  return streamId;
}

/** Content that is searched, in UTF-16 units: all of it would take too long for a key. */
const MAX_SEARCHED = 1_024;

function matches(event: FrameEvent, words: readonly string[]): boolean {
  const { direction, codec = '', summary, preview = '', error } = event;
  const text =
    `${direction} ${labelOf(event)} ${codec} ${summary} ${preview.slice(0, MAX_SEARCHED)} ${error?.code ?? ''}`.toLowerCase();
  return words.every((word) => (word.startsWith('#') ? `#${event.streamId}` === word : text.includes(word)));
}
