import { bytes, duration, isTerminal, paint, rate } from './format.js';

const MAX_WIDTH = 40;
const MIN_WIDTH = 8;
const FRAME_MS = 50;
/** Columns of a line without its bar. */
const TEXT_WIDTH = 56;

export interface Progress {
  update(done: number): void;
  /** Draws the final state. */
  finish(): void;
}

/** A progress bar; without a terminal, a single line at the end. */
export function createProgress(label: string, total: number): Progress {
  const start = performance.now();
  let drawnAt = Number.NEGATIVE_INFINITY;
  const draw = (done: number) => {
    const elapsed = performance.now() - start;
    const left = done === total ? elapsed : (elapsed * (total - done)) / done;
    const facts = [
      `${Math.floor((100 * done) / total)} %`.padStart(5),
      bytes(done).padStart(8),
      rate(done, elapsed).padStart(10),
      `${duration(left)}${done === total ? '' : ' left'}`,
    ];
    if (!isTerminal) return console.log(`  ${label}  ${facts.slice(1).join('  ').trimStart()}`);
    const line = `  ${label.padEnd(10)}  ${bar(done / total)} ${facts.join('  ')}`;
    process.stdout.write(`\r\u001b[2K${line}${done === total ? '\n' : ''}`);
  };
  return {
    update(done) {
      if (!isTerminal || done === total || performance.now() - drawnAt < FRAME_MS) return;
      drawnAt = performance.now();
      draw(done);
    },
    finish: () => draw(total),
  };
}

function bar(share: number): string {
  const width = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, process.stdout.columns - TEXT_WIDTH));
  const halves = Math.floor(share * width * 2);
  const filled = '━'.repeat(halves >> 1) + (halves % 2 === 1 ? '╸' : '');
  return paint('cyan', filled) + paint('dim', '━'.repeat(width - filled.length), ' ');
}
