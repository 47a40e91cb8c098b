import { wrap } from '../../packages/cli/src/base/text-layout.js';
import { number } from '../../packages/ui/src/shared/format.js';

/** Prints the demo and counts failed checks. */
export interface Report {
  section(title: string): void;
  line(text: string): void;
  table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): void;
  /** Checks one fact. */
  check(what: string, holds: boolean, detail?: string): void;
  /** A report whose checks count here, and that prints only what fails. */
  hidden(): Report;
  readonly failures: number;
  readonly checks: number;
}

const isTerminal = process.stdout.isTTY === true && process.env['NO_COLOR'] === undefined;
const columns = process.stdout.columns || 80;
/** Between two columns of a table. */
const GAP = '  ';
const paint = (code: number, text: string) => (isTerminal ? `\u001b[${code}m${text}\u001b[0m` : text);

export function createReport(): Report {
  return reportTo(console.log, { checks: 0, failures: 0 });
}

function reportTo(print: (line: string) => void, tally: { checks: number; failures: number }): Report {
  return {
    get failures() {
      return tally.failures;
    },
    get checks() {
      return tally.checks;
    },
    hidden() {
      const hidden = reportTo(() => {}, tally);
      const check: Report['check'] = (what, holds, detail) => {
        (holds ? hidden : this).check(what, holds, detail);
      };
      return { ...hidden, check };
    },
    section: (title) => print(`\n${paint(1, title)}`),
    line: (text) => {
      for (const paragraph of text.split('\n'))
        for (const each of wrap(paragraph, columns - 2)) print(`  ${each}`.trimEnd());
    },
    table(head, rows) {
      const cells = [head, ...rows].map((row) =>
        row.map((cell) => (typeof cell === 'number' ? number(cell) : cell)),
      );
      const widths = head.map((_, column) => Math.max(...cells.map((row) => (row[column] ?? '').length)));
      const width = widths.reduce((sum, each) => sum + each + GAP.length, 0);
      if (width > columns) {
        // A narrow terminal gets each row as a sentence, without the columns that have no name.
        for (const row of cells.slice(1))
          this.line(
            `${row[0]}: ${row.flatMap((cell, column) => (column > 0 && head[column] ? `${head[column]} ${cell}` : [])).join(', ')}`,
          );
        return;
      }
      for (const [index, row] of cells.entries()) {
        const text = row
          .map((cell, column) => {
            const isNumber = typeof rows[0]?.[column] === 'number';
            return isNumber ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0);
          })
          .join(GAP)
          .trimEnd();
        print(`  ${index === 0 ? paint(2, text) : text}`);
      }
    },
    check(what, holds, detail = '') {
      tally.checks++;
      if (!holds) tally.failures++;
      const mark = holds ? paint(32, '✓') : paint(31, '✗');
      const isOneLine = what.length + detail.length + 7 <= columns;
      for (const [index, each] of wrap(what, columns - 4).entries())
        print(`  ${index === 0 ? mark : ' '} ${each}${isOneLine && detail ? paint(2, ` (${detail})`) : ''}`);
      if (!isOneLine && detail) for (const each of wrap(detail, columns - 4)) print(`    ${paint(2, each)}`);
    },
  };
}
