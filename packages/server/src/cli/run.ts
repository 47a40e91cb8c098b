import { isProtocolError } from '@parlance/protocol';
import { type Command, CommanderError } from 'commander';
import { CommandFailure, describeFailure, ExitCode, failureLines } from './failure.js';
import { createProgram } from './program.js';
import type { Surroundings } from './surroundings.js';

/**
 * Runs one command line to its end.
 *
 * @param args what stands behind the name of the program.
 * @returns the exit code; whatever went wrong has been said.
 */
export async function runCommandLine(args: readonly string[], around: Surroundings): Promise<ExitCode> {
  let exitCode: ExitCode = ExitCode.OK;
  const program = createProgram(around, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(asAsked(args, program), { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.OK : ExitCode.USAGE;
    around.errors.write(failureLines(messageOf(error), around.errors));
    return exitCodeOf(error);
  }
}

/** Help on what there is not is as wrong as asking for it. */
function asAsked(args: readonly string[], { commands }: Command): readonly string[] {
  const [first, name] = args;
  const isKnown = name === undefined || commands.some((command) => command.name() === name);
  return first === 'help' && !isKnown ? args.slice(1) : args;
}

/** An option that no value could be right for is a matter of the command line. */
function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommandFailure) return error.exitCode;
  return isProtocolError(error) && error.code === 'invalid_option' ? ExitCode.USAGE : ExitCode.FAILURE;
}

function messageOf(error: unknown): string {
  if (error instanceof CommandFailure) return error.message;
  if (isProtocolError(error)) return describeFailure(error);
  // A fault of this program: the place helps whoever mends it.
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
