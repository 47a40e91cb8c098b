import type { Interface } from 'node:readline';
import type { Terminal } from '../base/terminal.js';

/** Output above a prompt: printing a line redraws the prompt below it. */
export interface Screen {
  readonly terminal: Terminal;
  /** Reads typed lines; its prompt is redrawn after output. */
  readline: Interface | undefined;
  /** Whether the prompt is shown. */
  isPrompting: boolean;
  /** Prints a line. @param on another stream, which may be the same terminal. @default {@link terminal} */
  print(line?: string, on?: Terminal): void;
  /** Shows a line that the next live line replaces; without a terminal, it is written by `flush`. */
  live(line: string): void;
  /** Makes the live line permanent. */
  flush(): void;
}

const CLEAR_LINE = '\r\u001b[2K';

export function createScreen(terminal: Terminal): Screen {
  let live: string | undefined;

  const screen: Screen = {
    terminal,
    readline: undefined,
    isPrompting: false,

    print(line = '', on = terminal) {
      screen.flush();
      const prompts = screen.isPrompting && terminal.isInteractive;
      if (prompts) terminal.write(CLEAR_LINE);
      on.write(`${line}\n`);
      if (prompts) screen.readline?.prompt(true);
    },

    live(line) {
      live = line;
      if (terminal.isInteractive) terminal.write(CLEAR_LINE + line);
    },

    flush() {
      if (live === undefined) return;
      terminal.write(terminal.isInteractive ? '\n' : `${live}\n`);
      live = undefined;
    },
  };
  return screen;
}
