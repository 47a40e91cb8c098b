import { createInterface, type Interface } from 'node:readline';
import type { Screen } from './screen.js';

/** Lines of standard input, one at a time: typed below a prompt, or from a pipe. */
export interface Lines extends AsyncIterable<string> {
  /** Ends the iteration, whatever is still to come. */
  stop(): void;
}

export interface LinesOptions {
  /** Somebody types: lines are edited, and remembered. */
  readonly isInteractive: boolean;
  /** Ctrl-C while typing. */
  readonly onInterrupt: () => void;
}

export function createLines(screen: Screen, { isInteractive, onInterrupt }: LinesOptions): Lines {
  const readline: Interface = createInterface({
    input: process.stdin,
    ...(isInteractive && { output: process.stderr }),
    terminal: isInteractive,
    prompt: '> ',
    historySize: 500,
    crlfDelay: Number.POSITIVE_INFINITY,
  });
  const waiting: string[] = [];
  let isOver = false;
  let wake: (() => void) | undefined;
  const notify = () => {
    wake?.();
    wake = undefined;
  };

  readline.on('line', (line) => {
    waiting.push(line);
    // What comes from a pipe is not read ahead without bound.
    if (!isInteractive && waiting.length > MAX_WAITING) readline.pause();
    notify();
  });
  readline.on('close', () => {
    isOver = true;
    // Nothing goes behind the prompt that nobody answers any more.
    if (screen.isPrompting) screen.terminal.write('\n');
    screen.isPrompting = false;
    notify();
  });
  readline.on('SIGINT', onInterrupt);
  screen.readline = isInteractive ? readline : undefined;

  return {
    stop() {
      waiting.length = 0;
      readline.close();
      process.stdin.destroy();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const line = waiting.shift();
        if (line !== undefined) {
          screen.isPrompting = false;
          yield line;
          continue;
        }
        if (isOver) return;
        if (isInteractive) {
          screen.isPrompting = true;
          readline.prompt();
        } else readline.resume();
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        screen.isPrompting = false;
      }
    },
  };
}

const MAX_WAITING = 100;
