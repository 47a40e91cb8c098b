import { type Direction, type Explanation, printable } from '@parlance/protocol/inspect';
import type { Style } from '../base/terminal.js';
import { cut, pad, widthOf, wrap } from '../base/text-layout.js';
import type { Screen } from './screen.js';

/** A frame, explained or recorded. */
type ShownFrame = Pick<Explanation, 'label' | 'streamId' | 'error' | 'preview' | 'sizes' | 'summary'>;

/** Shows each frame on a line: time, direction, label, size and meaning. */
export interface TrafficView {
  frame(direction: Direction, explanation: ShownFrame): void;
  /** Ends the line that collects parts of a reply. */
  flush(): void;
}

export interface TrafficOptions {
  /** Show each part of a reply on a line of its own. */
  readonly everyFrame: boolean;
  /** @default now */
  readonly clock?: (() => Date) | undefined;
}

const ARROWS = { sent: '→', received: '←' } as const;
const LABEL_WIDTH = 14;
const SIZE_WIDTH = 8;
/** Width of time, arrow, label and size, with gaps. */
const HEAD_WIDTH = 12 + 2 + 2 + LABEL_WIDTH + SIZE_WIDTH + 2;
/** Below this width, the meaning goes to lines of its own. */
const NARROW = 76;
/** Indentation of those lines. */
const NARROW_INDENT = 4;
/** Most lines for one frame. */
const MAX_LINES = 3;
/** Frames that only maintain the session; shown faintly. */
const HOUSEKEEPING: ReadonlySet<string> = new Set(['ack', 'credit', 'PING', 'PONG']);
/** Shortened to one line: the view lists the negotiated values below. */
const ONE_LINE: ReadonlySet<string> = new Set(['ACCEPT']);
/** Text kept of a reply, in UTF-16 units: more never fits into a line. */
const MAX_RUN_TEXT = 1000;

/** Consecutive parts of one reply. */
interface Run {
  readonly streamId: number;
  readonly time: string;
  readonly first: ShownFrame;
  count: number;
  bytes: number;
  text: string;
}

export function createTrafficView(screen: Screen, options: TrafficOptions): TrafficView {
  const { terminal } = screen;
  const { clock = () => new Date() } = options;
  let run: Run | undefined;

  const head = (time: string, direction: Direction, label: string, bytes: number): string => {
    const what = `${ARROWS[direction]} ${pad(cut(label, LABEL_WIDTH), LABEL_WIDTH)}`;
    const size = `${bytes.toLocaleString('en-US')} B`.padStart(SIZE_WIDTH);
    return `${terminal.style('faint', time)}  ${terminal.style(direction, what)}${size}`;
  };

  /** Puts the meaning next to the head, or below it on a narrow terminal. */
  const lines = (start: string, meaning: string, maxLines: number, style: Style | undefined): string[] => {
    const isNarrow = terminal.columns < NARROW;
    const indent = ' '.repeat(isNarrow ? NARROW_INDENT : HEAD_WIDTH);
    const shown = wrapped(printable(meaning), terminal.columns - indent.length - 1, maxLines).map((line) =>
      style === undefined ? line : terminal.style(style, line),
    );
    const [first = '', ...more] = shown;
    if (isNarrow) return [start, ...shown.map((line) => indent + line)];
    return [`${start}  ${first}`, ...more.map((line) => indent + line)];
  };

  /** The whole sentence if it fits, else what it begins with: the view lists the rest below. */
  const opening = (summary: string): string => {
    const room = terminal.columns - (terminal.columns < NARROW ? NARROW_INDENT : HEAD_WIDTH) - 1;
    if (widthOf(summary) <= room) return summary;
    const [clause = summary] = summary.split('; ');
    return widthOf(clause) <= room ? clause : 'the session is open';
  };

  /** Updates the one line that shows the parts received so far. */
  const showRun = ({ streamId, time, first, count, bytes, text }: Run): void => {
    const label = count === 1 ? labelOf(first) : `chunk #${streamId} ×${count}`;
    const meaning = count === 1 ? first.summary : `“${text}” in ${count} parts`;
    const [line] = lines(head(time, 'received', label, bytes), meaning, 1, undefined);
    screen.live(line as string);
  };

  const flush = (): void => {
    if (run !== undefined) screen.flush();
    run = undefined;
  };

  return {
    flush,

    frame(direction, explanation) {
      const { label, streamId, error, preview, sizes, summary } = explanation;
      const time = timeOf(clock());
      const isText = preview !== undefined && error === undefined;
      if (!options.everyFrame && direction === 'received' && label === 'chunk' && isText) {
        if (run !== undefined && run.streamId !== streamId) flush();
        const current = run ?? {
          streamId: streamId ?? 0,
          time,
          first: explanation,
          count: 0,
          bytes: 0,
          text: '',
        };
        current.count++;
        current.bytes += sizes.frame;
        current.text = (current.text + preview).slice(0, MAX_RUN_TEXT);
        run = current;
        showRun(current);
        return;
      }
      flush();
      const said = ONE_LINE.has(label) ? opening(summary) : summary;
      const meaning = error === undefined ? said : `${error.code} at byte ${error.offset}: ${error.message}`;
      const style = error !== undefined ? 'bad' : HOUSEKEEPING.has(label) ? 'faint' : undefined;
      const maxLines = ONE_LINE.has(label) ? 1 : MAX_LINES;
      const start = head(time, direction, labelOf(explanation), sizes.frame);
      for (const line of lines(start, meaning, maxLines, style)) screen.print(line);
    },
  };
}

/** At most `maxLines` lines; the last one ends with an ellipsis if there is more. */
function wrapped(text: string, width: number, maxLines: number): string[] {
  const all = wrap(text, Math.max(20, width));
  const shown = all.slice(0, maxLines);
  if (all.length > maxLines)
    shown[maxLines - 1] = cut(`${shown.at(-1)} ${all[maxLines]}`, Math.max(20, width));
  return shown;
}

function labelOf({ label, streamId }: ShownFrame): string {
  return printable(streamId === undefined || streamId === 0 ? label : `${label} #${streamId}`);
}

/** Local time with milliseconds. */
function timeOf(date: Date): string {
  const [hours, minutes, seconds] = [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) =>
    String(n).padStart(2, '0'),
  );
  return `${hours}:${minutes}:${seconds}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}
