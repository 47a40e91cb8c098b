import { bytes, duration, isTerminal, paint, rate } from './format.js';

const WIDTH = 32;
const FRAME_MS = 50;

export interface Progress {
  update(done: number): void;
  /** The line stays as it is now. */
  finish(): void;
}

/** A line that is drawn again and again on a terminal, and once, at the end, anywhere else. */
export function createProgress(label: string, total: number): Progress {
  const start = performance.now();
  let done = 0;
  let drawnAt = Number.NEGATIVE_INFINITY;
  const draw = (end: string) => {
    const elapsed = performance.now() - start;
    const left = done === 0 ? Number.NaN : (elapsed * (total - done)) / done;
    const facts = [
      `${Math.floor((100 * done) / total)} %`.padStart(5),
      bytes(done).padStart(9),
      rate(done, elapsed).padStart(10),
      done === total ? duration(elapsed) : Number.isNaN(left) ? '' : `${duration(left)} left`,
    ];
    const line = `  ${label.padEnd(14)} ${bar(done / total)} ${facts.join('  ')}`;
    process.stdout.write(isTerminal ? `\r\u001b[2K${line}${end}` : `${line}${end}`);
  };
  return {
    update(now) {
      done = now;
      if (!isTerminal || performance.now() - drawnAt < FRAME_MS) return;
      drawnAt = performance.now();
      draw('');
    },
    finish() {
      done = total;
      draw('\n');
    },
  };
}

function bar(share: number): string {
  const halves = Math.floor(share * WIDTH * 2);
  const filled = '━'.repeat(halves >> 1) + (halves % 2 === 1 ? '╸' : '');
  return paint('cyan', filled) + paint('dim', '━'.repeat(WIDTH - filled.length), ' ');
}
