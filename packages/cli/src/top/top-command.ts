import type { Command } from 'commander';
import { type CommandEnvironment, type Finish, wholeNumber } from '../base/command.js';

interface TopFlags {
  readonly once?: boolean;
  readonly interval: number;
}

/** `top`, a server's figures in the terminal. */
export function addTop(
  program: Command,
  { output, variable, keys }: CommandEnvironment,
  finish: Finish,
): void {
  program
    .command('top <url>')
    .summary("watch a server's sessions and figures")
    .description(
      'Shows what a server does, from its admin port, once a second: sessions, requests, bytes, and what a drain waits for. Without a terminal, prints one look.',
    )
    .option('--once', 'print one look and exit')
    .option('--interval <ms>', 'milliseconds between two looks', wholeNumber(100, 3_600_000), 1_000)
    .addHelpText(
      'after',
      `
Environment:
  PARLANCE_ADMIN_TOKEN  token of the admin port

Keys: q quits, s sorts by another column, r reverses.

Examples:
  parlance serve --admin-port 9465
  parlance top http://127.0.0.1:9465`,
    )
    .action(async (url: string, { once = false, interval }: TopFlags) => {
      const { top } = await import('./top.js');
      const token = variable('PARLANCE_ADMIN_TOKEN');
      finish(await top(url, { token, intervalMs: interval, isOnce: once }, output, keys));
    });
}
