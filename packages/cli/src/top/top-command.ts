import { type Command, Option } from 'commander';
import { type CommandEnvironment, type Finish, wholeNumber } from '../base/command.js';

interface TopFlags {
  readonly once?: boolean;
  readonly interval: number;
  readonly json?: boolean;
  readonly find: string;
  readonly show: string;
}

const SHOWS = ['suspended', 'waits', 'silent', 'agent', 'transport'];

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
      'Shows what a server does, from its admin port, once a second: what is wrong, sessions, requests, bytes, and what a drain waits for. It stays while the server restarts. Without a terminal, prints one look.',
    )
    .option('--once', 'print one look and exit')
    .option('--interval <ms>', 'milliseconds between two looks', wholeNumber(100, 3_600_000), 1_000)
    .option('--json', 'print each look as a JSON object on a line of its own')
    .option('--find <text>', 'only sessions with this in their ID, principal, label or address', '')
    .addOption(
      new Option('--show <which>', 'only sessions that are in this state').choices(SHOWS).default('', 'all'),
    )
    .addHelpText(
      'after',
      `
Environment:
  PARLANCE_ADMIN_TOKEN  token of the admin port

Keys: q quits, s sorts by another column, r reverses, f filters by state.

Examples:
  parlance serve --admin-port 9465
  parlance top http://127.0.0.1:9465`,
    )
    .action(async (url: string, { once = false, interval, json = false, find, show }: TopFlags) => {
      const { top } = await import('./top.js');
      const token = variable('PARLANCE_ADMIN_TOKEN');
      finish(
        await top(url, { token, intervalMs: interval, isOnce: once, isJson: json, find, show }, output, keys),
      );
    });
}
