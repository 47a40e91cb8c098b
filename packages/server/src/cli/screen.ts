import type { Interface } from 'node:readline';
import type { Terminal } from './terminal.js';

/** Lines that appear while somebody types: the prompt stays below them. */
export interface Screen {
  readonly terminal: Terminal;
  /** What reads the lines that are typed; its prompt is kept in sight. */
  readline: Interface | undefined;
  /** Whether the prompt is shown. */
  isPrompting: boolean;
  /** @param on where the line goes; another stream may well be the same terminal. @default its own */
  print(line?: string, on?: Terminal): void;
  /** A line that the next one replaces; where nobody looks, it is written when it is settled. */
  live(line: string): void;
  /** Keeps the live line as it is. */
  settle(): void;
}

const CLEAR_LINE = '\r\u001b[2K';

export function createScreen(terminal: Terminal): Screen {
  let live: string | undefined;

  const screen: Screen = {
    terminal,
    readline: undefined,
    isPrompting: false,

    print(line = '', on = terminal) {
      screen.settle();
      const prompts = screen.isPrompting && terminal.isInteractive;
      if (prompts) terminal.write(CLEAR_LINE);
      on.write(`${line}\n`);
      if (prompts) screen.readline?.prompt(true);
    },

    live(line) {
      live = line;
      if (terminal.isInteractive) terminal.write(CLEAR_LINE + line);
    },

    settle() {
      if (live === undefined) return;
      terminal.write(terminal.isInteractive ? '\n' : `${live}\n`);
      live = undefined;
    },
  };
  return screen;
}
