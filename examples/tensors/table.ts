import { bytes, columns, count, duration, paint, rate } from './format.js';
import type { Transfer } from './receiver.js';

export interface TableGroup {
  readonly title: string;
  readonly transfers: readonly Transfer[];
}

const HEAD = ['tensor', 'numbers', 'size', 'as JSON', 'time', 'rate', ''];
const RIGHT_ALIGNED = [2, 3, 4, 5];
/** The rate of smaller transfers would only measure the round trip. */
const MIN_RATED_SIZE = 1_000_000;

/** Prints transfers in groups, 80 columns wide. */
export function showTable(groups: readonly TableGroup[]): void {
  const rows = groups.flatMap(({ transfers }) => transfers.map(rowOf));
  const [head = '', ...lines] = columns([HEAD, ...rows], RIGHT_ALIGNED);
  console.log(`\n${paint('dim', head)}`);
  for (const { title, transfers } of groups) {
    console.log(`\n  ${title}`);
    for (const line of lines.splice(0, transfers.length)) {
      console.log(line.replace(/✓$/, paint('green', '✓')).replace(/✗.*$/, (fault) => paint('red', fault)));
    }
  }
}

function rowOf({ name, numbers, dtype, size, jsonSize, ms, isRight }: Transfer): string[] {
  return [
    name,
    `${count(numbers)} ${dtype}`,
    bytes(size),
    `≈${bytes(jsonSize)}`,
    duration(ms),
    size < MIN_RATED_SIZE ? '' : rate(size, ms),
    isRight ? '✓' : '✗ not what was sent',
  ];
}
