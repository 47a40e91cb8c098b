import type { Fair, Latency, Outcome } from './attack.js';
import {
  BOUNDS,
  broken,
  coresOf,
  FAIR_MIB_PER_S,
  mostCoresOf,
  percent,
  RATIO_TO_FAIR,
  RATIO_TO_QUIET,
  ratioOf,
} from './bounds.js';

/** The results in lines of at most 80 columns: two for each attack, and more for its broken bounds. */

const WIDTH = 80;

export const HEAD = [
  'attack                                     sent   peak   held   held  CPU',
  '  neighbour p50/p99/max ms   (quiet)        above idle    per B sent   %',
].join('\n');

/** The baseline of a run. */
export const baseline = (fair: Fair) =>
  `a well-behaved client: ${whole(fair.msPerMib)} ms of processor time for each MiB echoed, so that an
attack may take ${percent(mostCoresOf(fair))} of a core; neighbour ${latency(fair.neighbour)}`;

export function rows(outcome: Outcome, isShort: boolean): string {
  const { attack, neighbour, quiet } = outcome;
  const figures = [
    size(outcome.sentBytes).padStart(7),
    size(outcome.peakBytes).padStart(6),
    size(outcome.heldBytes).padStart(6),
    whole(ratioOf(outcome)).padStart(7),
    Math.round(coresOf(outcome) * 100)
      .toString()
      .padStart(4),
  ];
  const problems = broken(outcome, isShort);
  return [
    `${attack.name.padEnd(40).slice(0, 40)} ${figures.join(' ')}`,
    `  ${`${latency(neighbour)}   (${latency(quiet)})`.padEnd(56)} ${problems.length === 0 ? 'ok' : 'BROKEN'}`,
    ...(outcome.answer === undefined ? [] : [`  closed ${outcome.answer}`.slice(0, WIDTH)]),
    ...problems.flatMap((problem) => wrapped(problem)),
  ].join('\n');
}

const latency = ({ p50, p99, max }: Latency) => [p50, p99, max].map((ms) => whole(ms)).join('/');
const whole = (value: number) =>
  value === 0 ? '0' : value < 10 ? value.toFixed(1) : String(Math.round(value));

/** Bytes with a unit. */
function size(bytes: number): string {
  if (bytes < 1_000) return `${Math.round(bytes)} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${Math.round(bytes / 1_000_000)} MB`;
}

function wrapped(text: string): string[] {
  const lines: string[] = [];
  let line = '  !';
  for (const word of text.split(' ')) {
    if (line.length + word.length + 1 > WIDTH) {
      lines.push(line);
      line = '   ';
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

/** The promised bounds, for the usage text. */
export const PROMISE = `  memory above idle   at most 64 MiB a session, and a quarter of what the
                      process may take for all sessions of one principal
  bytes held          at most ${BOUNDS.heldPerByte} for each byte sent, above 64 KiB a message
  one principal       at most half a core, or what ${FAIR_MIB_PER_S} MiB a second of a well-behaved
                      client cost in the same run if that is more, while others
                      wait, whose p99 is at most ${RATIO_TO_FAIR} times that beside such a client,
                      or ${RATIO_TO_QUIET} times that of a quiet server
  a full server       serves a new client's request of 1 MiB within a second,
                      and is back at idle + 32 MiB within 10 s`;
