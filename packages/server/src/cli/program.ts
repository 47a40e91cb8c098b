import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { type ExitCode, failureLines } from './failure.js';
import { addDecode, addEncode, addInspect } from './frame-commands.js';
import { addConnect, addServe } from './session-commands.js';
import type { Surroundings } from './surroundings.js';

/**
 * The commands and their options. What a command does is in a file of its own, which is loaded when it
 * is asked for: none waits for the libraries of the others.
 */

const EXIT_CODES =
  '\nExit codes: 0 all went well, 1 something failed or a frame is damaged,\n2 the command line is wrong.';

/** @param finish is told how a command ended. */
export function createProgram(around: Surroundings, finish: (code: ExitCode) => void): Command {
  const { output, errors } = around;
  const program = new Command('parlance')
    .description('Runs and talks to Parlance session servers, and explains what travels between them.')
    .version(version(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show this')
    .helpCommand('help [command]', 'show what a command does')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => output.write(text),
      writeErr: (text) => errors.write(text),
      outputError: (text, write) => write(failureLines(text.trimEnd().replace(/^error: /, ''), errors)),
    })
    .showHelpAfterError('(--help shows what there is)')
    .addHelpText('afterAll', EXIT_CODES);
  addServe(program, around, finish);
  addConnect(program, around, finish);
  addInspect(program, around, finish);
  addEncode(program, around, finish);
  addDecode(program, around, finish);
  return program;
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
