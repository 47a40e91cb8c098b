import { createInterface, type Interface } from 'node:readline';
import type { Screen } from './screen.js';

/** Lines of standard input, one at a time: typed at a prompt, or from a pipe. */
export interface Lines extends AsyncIterable<string> {
  /** Ends the iteration and discards the remaining input. */
  stop(): void;
}

export interface LinesOptions {
  /** A person types: enables line editing and history. */
  readonly isInteractive: boolean;
  /** Called on Ctrl-C. */
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
    // Bounds how far a pipe is read ahead.
    if (!isInteractive && waiting.length > MAX_WAITING) readline.pause();
    notify();
  });
  readline.on('close', () => {
    isOver = true;
    // Later output must not follow the abandoned prompt on its line.
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
