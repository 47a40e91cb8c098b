import { createRequire } from 'node:module';
import { isProtocolError } from '@parlance/protocol';
import { Command, CommanderError } from 'commander';
import type { CommandEnvironment, Finish } from './base/command.js';
import { CommandFailure, describeFailure, ExitCode, failureLines } from './base/failure.js';
import { addConnect } from './connect/connect-command.js';
import { addEngine } from './engine/engine-command.js';
import { addFollow } from './follow/follow-command.js';
import { addDecode, addEncode, addInspect } from './frames/frame-commands.js';
import { addServe } from './serve/serve-command.js';
import { addTop } from './top/top-command.js';

const { version } = createRequire(import.meta.url)('@parlance/cli/package.json') as { version: string };

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
    .version(version, '-V, --version', 'show the version')
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
