import type { Terminal } from './terminal.js';
import { wrap } from './text-layout.js';

/** Exit codes of the process. */
export const ExitCode = {
  OK: 0,
  /** An operation failed, or a frame is damaged. */
  FAILURE: 1,
  /** Wrong usage. */
  USAGE: 2,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** An expected failure: only its message is shown, without a stack. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = ExitCode.FAILURE, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** A failure in one line; if the server rejected the session, with the reason that it sent. */
export function describeFailure(error: unknown): string {
  const { code, message, reject } = error as {
    code?: unknown;
    message?: unknown;
    reject?: { code: string; message: string };
  };
  if (reject !== undefined) return `the server refused the session: ${reject.code}: ${reject.message}`;
  return typeof code === 'string' ? `${code}: ${String(message)}` : String(message ?? error);
}

/** An error message, wrapped to the width of the terminal. */
export function failureLines(message: string, terminal: Terminal): string {
  const [first = '', ...more] = message
    .split('\n')
    .flatMap((line, i) => wrap(line, terminal.columns - (i === 0 ? PREFIX.length + 1 : 0)));
  return `${[`${terminal.style('bad', PREFIX)} ${first}`, ...more].join('\n')}\n`;
}
const PREFIX = 'parlance:';
