import { Algorithm, EncodingName, Subprotocol } from '@parlance/protocol';
import { type Command, Option } from 'commander';
import type { LogLevel } from './log.js';
import { httpUrl, nameOf, splitList, wholeNumber } from './option-values.js';
import type { Finish, Surroundings } from './surroundings.js';

/** `serve` and `connect`: the two ends of a session. */

const ALGORITHMS = Object.values(Algorithm);
const ENCODINGS = Object.values(EncodingName);
const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];
interface ServeFlags {
  readonly port: number;
  readonly host: string;
  readonly path: string;
  readonly upstream?: string;
  readonly origins?: readonly string[];
  readonly logLevel: LogLevel;
  readonly drainTimeout: number;
  readonly metricsPort?: number;
}

export function addServe(program: Command, { output, token, apiKey }: Surroundings, finish: Finish): void {
  program
    .command('serve')
    .summary('run a session server')
    .description(
      'Runs a session server until SIGTERM or SIGINT. Without --upstream an embedded responder answers requests; one-way messages come back as they are.',
    )
    .option('-p, --port <port>', 'port to listen on; 0 takes a free one', wholeNumber(0, 65_535), 8765)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--path <path>', 'path of the WebSocket endpoint', '/session')
    .option(
      '--upstream <url>',
      'OpenAI-compatible API that answers requests, such as http://127.0.0.1:11434/v1',
      httpUrl,
    )
    .option('--origins <origins...>', 'origins of web pages that may connect, such as https://app.example')
    .addOption(new Option('--log-level <level>', 'how much is logged').choices(LOG_LEVELS).default('info'))
    .option('--metrics-port <port>', 'serve /metrics, /healthz and /readyz there', wholeNumber(0, 65_535))
    .option(
      '--drain-timeout <ms>',
      'how long sessions may go on after SIGTERM, in milliseconds',
      wholeNumber(0, 3_600_000),
      30_000,
    )
    .addHelpText(
      'after',
      `
OPENAI_API_KEY is shown to the upstream.
With PARLANCE_TOKEN set, clients have to present that token; without it only
clients on this machine are served, whatever --host says.
The log is JSON, a line an entry, where no terminal shows it.

Example:
  parlance serve --port 8765 --origins https://app.example`,
    )
    .action(async ({ logLevel, drainTimeout, metricsPort, upstream, origins = [], ...flags }: ServeFlags) => {
      const { serve } = await import('./serve.js');
      finish(
        await serve(
          {
            ...flags,
            logLevel,
            drainTimeoutMs: drainTimeout,
            metricsPort,
            upstream,
            apiKey,
            origins: splitList(origins),
            token,
          },
          output,
        ),
      );
    });
}

interface ConnectFlags {
  readonly token?: string;
  readonly algorithm?: Algorithm;
  readonly encoding?: EncodingName;
  readonly agentId?: string;
  readonly subprotocol: Subprotocol;
  readonly model?: string;
  readonly send?: boolean;
  readonly timeout: number;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly everyFrame?: boolean;
}

export function addConnect(program: Command, around: Surroundings, finish: Finish): void {
  const { output, errors, isTyped } = around;
  program
    .command('connect <url>')
    .summary('talk to a session server and see what travels')
    .description(
      'Opens a session, sends each line of standard input as a request and prints the reply. What travels in both directions is shown and explained on standard error.',
    )
    .option('--token <token>', 'credentials; PARLANCE_TOKEN keeps them out of the list of processes')
    .option(
      '-a, --algorithm <name>',
      `how everything that is sent is coded: ${ALGORITHMS.join(', ')} (default: whatever is smallest)`,
      nameOf(ALGORITHMS),
    )
    .option(
      '-e, --encoding <name>',
      `the only tokenizer vocabulary to offer: ${ENCODINGS.join(', ')}`,
      nameOf(ENCODINGS),
    )
    .option('--agent-id <id>', 'how this client calls itself')
    .option('-m, --model <name>', 'make the lines a chat with this model')
    .option('--send', 'make the lines one-way messages')
    .addOption(
      new Option('--subprotocol <name>', 'm2m.v1.json is readable on the wire, and without requests')
        .choices(Object.values(Subprotocol))
        .default(Subprotocol.BINARY),
    )
    .option(
      '--timeout <ms>',
      'how long a reply may take, in milliseconds',
      wholeNumber(1, 2 ** 31 - 1),
      60_000,
    )
    .option('--every-frame', 'a line for every part of a reply')
    .option('--json', 'everything as JSON on standard output, an object a line')
    .option('-q, --quiet', 'replies only')
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
        quiet = false,
        everyFrame = false,
        send = false,
        timeout,
        token = around.token,
        algorithm,
        encoding,
        agentId,
        model,
        ...rest
      } = flags;
      const { connect } = await import('./connect.js');
      const { createJsonView, createPeopleView } = await import('./connect-view.js');
      const view = json ? createJsonView(output) : createPeopleView(output, errors, { quiet, everyFrame });
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
        isInteractive,
      };
      finish(await connect(url, options, view));
    });
}
