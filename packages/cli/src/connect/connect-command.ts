import type { TransportName } from '@parlance/client';
import { Algorithm, EncodingName, Subprotocol } from '@parlance/protocol';
import { type Command, Option } from 'commander';
import { type CommandEnvironment, type Finish, nameOf, TOKEN_HELP, wholeNumber } from '../base/command.js';

/** `connect`, the client's end of a session. */

const ALGORITHMS = Object.values(Algorithm);
const ENCODINGS = Object.values(EncodingName);
const TRANSPORTS: readonly TransportName[] = ['websocket', 'http'];

interface ConnectFlags {
  readonly token?: string;
  readonly algorithm?: Algorithm;
  readonly encoding?: EncodingName;
  readonly agentId?: string;
  readonly subprotocol: Subprotocol;
  readonly transport: TransportName;
  readonly model?: string;
  readonly send?: boolean;
  readonly timeout: number;
  readonly json?: boolean;
  readonly ui?: boolean;
  readonly uiPort?: number;
  readonly quiet?: boolean;
  readonly everyFrame?: boolean;
}

export function addConnect(program: Command, environment: CommandEnvironment, finish: Finish): void {
  const { output, errors, isTyped } = environment;
  program
    .command('connect <url>')
    .summary('talk to a session server and watch the frames')
    .description(
      'Opens a session, sends each line of standard input as a request and prints the reply. The frames of both directions are explained on standard error.',
    )
    .option('--token <token>', TOKEN_HELP)
    .option(
      '-a, --algorithm <name>',
      `codec for everything sent: ${ALGORITHMS.join(', ')} (default: the smallest result)`,
      nameOf(ALGORITHMS),
    )
    .option(
      '-e, --encoding <name>',
      `offer only this vocabulary: ${ENCODINGS.join(', ')} (default: all available)`,
      nameOf(ENCODINGS),
    )
    .option('--agent-id <id>', 'agent ID of this client')
    .option('-m, --model <name>', 'send the lines as a chat with this model')
    .option('--send', 'send the lines as one-way messages')
    .addOption(
      new Option('--subprotocol <name>', 'm2m.v1.json is readable on the wire but has no requests')
        .choices(Object.values(Subprotocol))
        .default(Subprotocol.BINARY),
    )
    .addOption(
      new Option(
        '--transport <name>',
        'http is for networks that forbid WebSockets; servers have to allow it',
      )
        .choices(TRANSPORTS)
        .default('websocket'),
    )
    .option('--timeout <ms>', 'milliseconds that a reply may take', wholeNumber(1, 2 ** 31 - 1), 60_000)
    .option('--every-frame', 'show each part of a reply on its own line')
    .option('--json', 'print everything as JSON lines on standard output: a capture that an inspector opens')
    .option('--ui', 'show the frames in a page on this machine, until Ctrl-C')
    .option('--ui-port <port>', 'port of that page (default: any free port)', wholeNumber(0, 65_535))
    .option('-q, --quiet', 'print only replies')
    .addHelpText(
      'after',
      `
Examples:
  parlance connect ws://127.0.0.1:8765/session
  echo "why is the sky blue?" |
    parlance connect --quiet ws://127.0.0.1:8765/session`,
    )
    .action(async (url: string, flags: ConnectFlags) => {
      const {
        json = false,
        ui = false,
        uiPort = ui ? 0 : undefined,
        quiet = false,
        everyFrame = false,
        send = false,
        timeout,
        token = environment.variable('PARLANCE_TOKEN'),
        algorithm,
        encoding,
        agentId,
        model,
        ...rest
      } = flags;
      const { connect } = await import('./connect.js');
      const { createJsonView, createTextView } = await import('./connect-view.js');
      const view = json ? createJsonView(output) : createTextView(output, errors, { quiet, everyFrame });
      const isInteractive = isTyped && errors.isInteractive && !json;
      const options = {
        ...rest,
        send,
        token,
        algorithm,
        encoding,
        agentId,
        model,
        timeoutMs: timeout,
        uiPort,
        isInteractive,
      };
      finish(await connect(url, options, view));
    });
}
