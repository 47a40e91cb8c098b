import { isProtocolError } from '@parlance/protocol';
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../base/package-version.js';
import type { CommandEnvironment, Finish } from './command.js';
import { addConnect } from './connect-command.js';
import { addEngine } from './engine-command.js';
import { CommandFailure, describeFailure, ExitCode, failureLines } from './failure.js';
import { addDecode, addEncode, addInspect } from './frame-commands.js';
import { addFollow } from './replies/follow-command.js';
import { addServe } from './serve-command.js';
import { addTop } from './top-command.js';

/**
 * Runs one command line to its end.
 *
 * @param args arguments after the name of the program.
 * @returns the exit code; any error has been printed.
 */
export async function runCommandLine(
  args: readonly string[],
  environment: CommandEnvironment,
): Promise<ExitCode> {
  let exitCode: ExitCode = ExitCode.OK;
  const program = createProgram(environment, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(withoutWrongHelp(args, program), { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.OK : ExitCode.USAGE;
    environment.errors.write(failureLines(messageOf(error), environment.errors));
    return exitCodeOf(error);
  }
}

const EXIT_CODES = '\nExit codes: 0 success, 1 failure or damaged frame, 2 wrong usage.';

/** Declares the commands. Each loads its implementation when it runs, so none waits for the libraries of the others. */
function createProgram(environment: CommandEnvironment, finish: Finish): Command {
  const { output, errors } = environment;
  const program = new Command('parlance')
    .description('Runs Parlance session servers, talks to them, and explains the frames they exchange.')
    .version(packageVersion(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [command]', 'show help for a command')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => output.write(text),
      writeErr: (text) => errors.write(text),
      outputError: (text, write) => write(failureLines(text.trimEnd().replace(/^error: /, ''), errors)),
    })
    .showHelpAfterError('(add --help for usage)')
    .addHelpText('afterAll', EXIT_CODES);
  addServe(program, environment, finish);
  addConnect(program, environment, finish);
  addFollow(program, environment, finish);
  addTop(program, environment, finish);
  addEngine(program, environment, finish);
  addInspect(program, environment, finish);
  addEncode(program, environment, finish);
  addDecode(program, environment, finish);
  return program;
}

/** Makes help for an unknown command the same error as the command itself. */
function withoutWrongHelp(args: readonly string[], { commands }: Command): readonly string[] {
  const [first, name] = args;
  const isKnown = name === undefined || commands.some((command) => command.name() === name);
  return first === 'help' && !isKnown ? args.slice(1) : args;
}

/** An invalid option is a usage error, even if only the library noticed it. */
function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommandFailure) return error.exitCode;
  return isProtocolError(error) && error.code === 'invalid_option' ? ExitCode.USAGE : ExitCode.FAILURE;
}

function messageOf(error: unknown): string {
  if (error instanceof CommandFailure) return error.message;
  if (isProtocolError(error)) return describeFailure(error);
  // A bug of this program: show the stack.
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
