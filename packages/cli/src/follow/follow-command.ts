import type { Command } from 'commander';
import { type CommandEnvironment, type Finish, TOKEN_HELP, wholeNumber } from '../base/command.js';

/** `follow`, which prints a kept reply. */

interface FollowFlags {
  readonly token?: string;
  readonly after: number;
  readonly stop?: boolean;
  readonly quiet?: boolean;
}

export function addFollow(program: Command, environment: CommandEnvironment, finish: Finish): void {
  const { output, errors } = environment;
  program
    .command('follow <url> [reply]')
    .summary('print a reply that a server keeps')
    .description(
      'Prints the parts of a kept reply as they come, to its end. Without the ID or the name of a reply, lists those that may be followed. Ctrl-C leaves, and the reply continues.',
    )
    .option('--token <token>', TOKEN_HELP)
    .option('--after <n>', 'begin after this part', wholeNumber(0, Number.MAX_SAFE_INTEGER), 0)
    .option('--stop', 'stop the reply for all its readers')
    .option('-q, --quiet', 'print only the reply')
    .addHelpText(
      'after',
      `
Examples:
  parlance follow ws://127.0.0.1:8765/session
  parlance follow ws://127.0.0.1:8765/session chat-42 --after 100`,
    )
    .action(async (url: string, reply: string | undefined, flags: FollowFlags) => {
      const { token = environment.variable('PARLANCE_TOKEN'), after, stop = false, quiet = false } = flags;
      const { follow } = await import('./follow.js');
      const { createFollowView } = await import('./follow-view.js');
      const view = createFollowView(output, errors, { quiet });
      finish(await follow(url, { reply, after, stop, token }, view));
    });
}
