import type { Command } from 'commander';
import type { CommandEnvironment, Finish } from '../base/command.js';
import { ENGINE_HELP, type EngineAddress, engineAddress } from './engine-address.js';

/** `engine`, for what is kept while no server uses it. */
export function addEngine(program: Command, { output, errors }: CommandEnvironment, finish: Finish): void {
  program
    .command('engine')
    .summary('copy what servers keep to another engine')
    .description('Looks after what servers keep in an engine.')
    .command('copy')
    .summary('copy sessions and kept replies to another engine')
    .description(
      'Copies recorded sessions and kept replies from one engine to another, which has to be empty, while no server uses either. Sealed records are copied as they are.',
    )
    .argument('<from>', `engine that has them: ${ENGINE_HELP}`, engineAddress)
    .argument('<to>', 'engine that gets them, written alike', engineAddress)
    .addHelpText(
      'after',
      `
Stop all servers of FROM before, and start them on TO afterwards. FROM is not changed.

Example:
  parlance engine copy /var/lib/parlance postgres://parlance@10.0.0.5/parlance`,
    )
    .action(async (from: EngineAddress, to: EngineAddress) => {
      const { copy } = await import('./engine-copy.js');
      finish(await copy(from, to, output, errors));
    });
}
