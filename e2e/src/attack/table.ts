import type { Latency, Outcome } from './attack.js';
import { BOUNDS, broken, coresOf, ratioOf } from './bounds.js';

/** The results in lines of at most 80 columns, two for each attack and one for each bound that is broken. */

const WIDTH = 80;

export const HEAD = [
  'attack                                     sent   peak   held  held/B   CPU',
  '  neighbour p50/p99/max ms   (quiet)        MiB    MiB    MiB  B sent     %',
].join('\n');

export function rows(outcome: Outcome, isShort: boolean): string {
  const { attack, neighbour, quiet } = outcome;
  const figures = [
    fixed(outcome.sentBytes / MIB, 6),
    fixed(outcome.peakBytes / MIB, 6),
    fixed(outcome.heldBytes / MIB, 6),
    fixed(ratioOf(outcome), 7),
    fixed(coresOf(outcome) * 100, 5),
  ];
  const problems = broken(outcome, isShort);
  return [
    `${attack.name.padEnd(40).slice(0, 40)} ${figures.join(' ')}`,
    `  ${`${latency(neighbour)}   (${latency(quiet)})`.padEnd(56)} ${problems.length === 0 ? 'ok' : 'BROKEN'}`,
    ...problems.flatMap((problem) => wrapped(problem)),
  ].join('\n');
}

const MIB = 1024 * 1024;

const latency = ({ p50, p99, max }: Latency) => [p50, p99, max].map((ms) => whole(ms)).join('/');
const whole = (ms: number) => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));

function fixed(value: number, width: number): string {
  const text =
    value === 0
      ? '0'
      : value < 0.1
        ? value.toFixed(4)
        : value < 10
          ? value.toFixed(1)
          : String(Math.round(value));
  return text.padStart(width).slice(0, Math.max(width, text.length));
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

/** What is promised, in words. */
export const PROMISE = `  memory above idle     at most 64 MiB a session, and what one principal may have of the
                        process for all of its sessions
  bytes held            at most ${BOUNDS.heldPerByte} for each byte sent, above 64 KiB a message
  one principal         at most half a core while others wait, whose p99 stays
                        at or below ${BOUNDS.neighbourP99Ms} ms
  a full server         serves a new client's request of 1 MiB within a second, and is
                        back at idle + 32 MiB within 10 s`;
