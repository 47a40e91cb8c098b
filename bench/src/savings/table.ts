import type { Traffic } from '../gateway/ways.js';
import type { Savings, WayName } from './measure.js';

/** A line of the table: the bytes of one chat four ways. */
export interface Line {
  readonly turns: number;
  readonly what: 'answers' | 'requests and answers';
  readonly bytes: Readonly<Record<WayName, number>>;
}

export function linesOf(savings: Savings): Line[] {
  const bytesOf = (turns: number, size: (traffic: Traffic) => number) => {
    const of = (way: WayName) => {
      const counted = savings[way].get(turns);
      if (counted === undefined) throw new Error(`nothing was counted after ${turns} turns`);
      return size(counted.proxy);
    };
    return { http: of('http'), gzip: of('gzip'), 'gzip both': of('gzip both'), session: of('session') };
  };
  return [...savings.session.keys()].flatMap((turns): Line[] => [
    { turns, what: 'answers', bytes: bytesOf(turns, ({ received }) => received) },
    {
      turns,
      what: 'requests and answers',
      bytes: bytesOf(turns, ({ sent, received }) => sent + received),
    },
  ]);
}

const HEADS = [
  'turns',
  'bytes of',
  'HTTP, uncompressed',
  'gzip of answers',
  'gzip of requests too',
  'Parlance',
  'fewer than with gzip of answers',
  'fewer than with gzip of both',
];

/** In Markdown, as docs/MEASUREMENTS.md has it. */
export function tableOf(lines: readonly Line[]): string {
  const rows = lines.map(({ turns, what, bytes }) => [
    String(turns),
    what,
    ...[bytes.http, bytes.gzip, bytes['gzip both'], bytes.session].map(kilobytes),
    timesOf(bytes.gzip / bytes.session),
    timesOf(bytes['gzip both'] / bytes.session),
  ]);
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(HEADS), `|${'---|'.repeat(HEADS.length)}`, ...rows.map(line)].join('\n');
}

function kilobytes(count: number): string {
  const options = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return `${(count / 1000).toLocaleString('en-US', options)} kB`;
}

function timesOf(ratio: number): string {
  return `${ratio.toFixed(1)}×`;
}
