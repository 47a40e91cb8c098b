import type { Row } from './row.js';

/** Receives rows as they are measured. */
export interface Reporter {
  begin(bench: string, description: string): void;
  row(row: Row): void;
  end(): void;
}

/** One JSON object per line, with six fields, and `quartiles` if they are known. */
export function createJsonReporter(print: (line: string) => void): Reporter {
  return {
    begin() {},
    row({ name, value, unit, baseline, ratio, better, quartiles }) {
      const figures = { name, value: round(value), unit, baseline, ratio: round(ratio), better };
      print(JSON.stringify({ ...figures, quartiles: quartiles?.map(round) }));
    },
    end() {},
  };
}

const HEAD = ['what', 'value', 'unit', 'against', 'ratio', 'target (quartiles)'] as const;
/** Wide enough for the rows of the benches; a longer cell pushes the rest of its line to the right. */
const WIDTHS = [50, 9, 7, 16, 7, 12] as const;
const RIGHT = new Set([1, 4]);

/** A table that prints each row as it is measured, so its columns have fixed widths. */
export function createTableReporter(print: (line: string) => void): Reporter {
  const line = (cells: readonly string[]) =>
    print(
      cells
        .map((cell, column) => {
          const width = WIDTHS[column] ?? 0;
          return RIGHT.has(column) ? cell.padStart(width) : cell.padEnd(width);
        })
        .join('  ')
        .trimEnd(),
    );
  let met = 0;
  let missed = 0;
  let previous = '';
  return {
    begin(bench, description) {
      print(`\n${bench}: ${description}\n`);
      line(HEAD);
    },
    row({ name, value, unit, baseline, ratio, better, target, quartiles }) {
      if (target !== undefined) target.met ? met++ : missed++;
      const direction = better === 'higher' ? '↑' : '↓';
      // A figure that is compared to several baselines is named once.
      const figure = `${name} ${unit}`;
      const isRepeated = figure === previous;
      previous = figure;
      line([
        isRepeated ? '' : name,
        isRepeated ? '' : readable(value),
        isRepeated ? '' : `${unit} ${direction}`,
        baseline,
        `${ratio.toFixed(ratio < 10 ? 2 : 1)}x`,
        [
          target === undefined ? '' : `${target.text} ${target.met ? '✓' : '✗'}`,
          quartiles === undefined || isRepeated ? '' : `(${quartiles.map(readable).join(' to ')})`,
        ]
          .filter((text) => text !== '')
          .join('  '),
      ]);
    },
    end() {
      if (met + missed > 0) print(`\n${met} of ${met + missed} targets met`);
    },
  };
}

function readable(value: number): string {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
}

/** Rounds to four significant digits, more than a shared machine reproduces. */
function round(value: number): number {
  return Number(value.toPrecision(4));
}
