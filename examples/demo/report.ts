/** Prints what happened as a table a person can read, and remembers whether all of it held. */

export interface Report {
  section(title: string): void;
  line(text: string): void;
  table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): void;
  /** One fact that must hold. */
  check(what: string, holds: boolean, detail?: string): void;
  readonly failures: number;
  readonly checks: number;
}

const isTerminal = process.stdout.isTTY === true && process.env['NO_COLOR'] === undefined;
const paint = (code: number, text: string) => (isTerminal ? `\u001b[${code}m${text}\u001b[0m` : text);

export function createReport(print: (line: string) => void = console.log): Report {
  let failures = 0;
  let checks = 0;
  return {
    get failures() {
      return failures;
    },
    get checks() {
      return checks;
    },
    section: (title) => print(`\n${paint(1, title)}`),
    line: (text) => print(`  ${text}`),
    table(head, rows) {
      const cells = [head, ...rows].map((row) =>
        row.map((cell) => (typeof cell === 'number' ? group(cell) : cell)),
      );
      const widths = head.map((_, column) => Math.max(...cells.map((row) => (row[column] ?? '').length)));
      for (const [index, row] of cells.entries()) {
        const text = row
          .map((cell, column) => {
            const isNumber = typeof rows[0]?.[column] === 'number';
            return isNumber ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0);
          })
          .join('   ')
          .trimEnd();
        print(`  ${index === 0 ? paint(2, text) : text}`);
      }
    },
    check(what, holds, detail = '') {
      checks++;
      if (!holds) failures++;
      print(`  ${holds ? paint(32, '✓') : paint(31, '✗')} ${what}${detail && paint(2, ` (${detail})`)}`);
    },
  };
}

/** 1234567 as `1,234,567`. */
function group(value: number): string {
  return value.toLocaleString('en-US');
}
