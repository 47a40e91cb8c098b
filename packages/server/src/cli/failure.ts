import type { Terminal } from './terminal.js';
import { wrap } from './text-layout.js';

/** How the command line ends. */
export const ExitCode = {
  OK: 0,
  /** Something that was asked for could not be done, or a frame is damaged. */
  FAILURE: 1,
  /** The command line itself is wrong. */
  USAGE: 2,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** A failure whose message is all that there is to say. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = ExitCode.FAILURE, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** A failure in one line, with what its peer said of it. */
export function describeFailure(error: unknown): string {
  const { code, message, reject } = error as {
    code?: unknown;
    message?: unknown;
    reject?: { code: string; message: string };
  };
  if (reject !== undefined) return `the server refuses the session: ${reject.code}: ${reject.message}`;
  return typeof code === 'string' ? `${code}: ${String(message)}` : String(message ?? error);
}

/** What went wrong, as it is shown: lines of the terminal's width, or as many as the message has. */
export function failureLines(message: string, terminal: Terminal): string {
  const [first = '', ...more] = message
    .split('\n')
    .flatMap((line, i) => wrap(line, terminal.columns - (i === 0 ? PREFIX.length + 1 : 0)));
  return `${[`${terminal.style('bad', PREFIX)} ${first}`, ...more].join('\n')}\n`;
}
const PREFIX = 'parlance:';
