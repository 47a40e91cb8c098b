import { Algorithm, EncodingName, Subprotocol } from '@parlance/protocol';
import { type Command, Option } from 'commander';
import {
  type CommandEnvironment,
  type Finish,
  httpUrl,
  nameOf,
  redisUrl,
  splitList,
  wholeNumber,
} from './command.js';
import { CommandFailure, ExitCode } from './failure.js';
import type { LogLevel } from './log.js';

/** `serve`, `connect` and `follow`, the two ends of a session. */

const ALGORITHMS = Object.values(Algorithm);
const ENCODINGS = Object.values(EncodingName);
const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];
interface ServeFlags {
  readonly port: number;
  readonly host: string;
  readonly path: string;
  readonly upstream?: string;
  readonly origins?: readonly string[];
  readonly hosts?: readonly string[];
  readonly trustedProxies?: readonly string[];
  readonly logLevel: LogLevel;
  readonly drainTimeout: number;
  readonly metricsPort?: number;
  readonly ui: boolean;
  readonly cluster?: string;
  readonly peerPort?: number;
  readonly advertise?: string;
  readonly peerInsecure?: boolean;
  readonly peerCert?: string;
  readonly peerKey?: string;
  readonly peerCa?: string;
  readonly peerMutual?: boolean;
}

export function addServe(
  program: Command,
  { output, token, apiKey, clusterSecret }: CommandEnvironment,
  finish: Finish,
): void {
  program
    .command('serve')
    .summary('run a session server')
    .description(
      'Runs a session server until SIGTERM or SIGINT. Requests go to --upstream, or to a built-in responder for trying things out; one-way messages are sent back.',
    )
    .option('-p, --port <port>', 'port to listen on; 0 for any free port', wholeNumber(0, 65_535), 8765)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--path <path>', 'path of the WebSocket endpoint', '/session')
    .option(
      '--upstream <url>',
      'OpenAI-compatible API to forward requests to, such as http://127.0.0.1:11434/v1',
      httpUrl,
    )
    .option('--origins <origins...>', 'origins of web pages that may connect, such as https://app.example')
    .option(
      '--hosts <names...>',
      "the server's own names, such as app.example; requests for others are refused",
    )
    .option(
      '--trusted-proxies <addresses...>',
      'proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8; else all their clients share the limits of one',
    )
    .addOption(
      new Option('--log-level <level>', 'least severe messages to log').choices(LOG_LEVELS).default('info'),
    )
    .option(
      '--metrics-port <port>',
      'port for /metrics, /healthz and /readyz (default: none)',
      wholeNumber(0, 65_535),
    )
    .option('--no-ui', 'do not show the chat page to browsers on this machine')
    .option(
      '--drain-timeout <ms>',
      'milliseconds that requests may take to finish after SIGTERM',
      wholeNumber(0, 3_600_000),
      30_000,
    )
    .option('--cluster <url>', 'Redis in which nodes find each other, such as redis://10.0.0.5', redisUrl)
    .option('--peer-port <port>', 'port for other nodes (default: any free port)', wholeNumber(0, 65_535))
    .option('--advertise <url>', 'address at which other nodes reach that port, such as wss://10.0.0.7:7946')
    .option('--peer-cert <file>', 'certificate of that port in PEM, so that it speaks TLS (wss:)')
    .option('--peer-key <file>', 'key of the certificate, in PEM and without a passphrase')
    .option('--peer-ca <file>', 'authority that nodes trust when they connect (default: those of Node)')
    .option('--peer-mutual', 'nodes must show certificates of --peer-ca (mTLS), in addition to the secret')
    .option('--peer-insecure', 'allow ws: between machines, for a network that is encrypted itself')
    .addHelpText(
      'after',
      `
Environment:
  PARLANCE_TOKEN  token that clients must present; without it, the server
                  accepts only clients on this machine, even with --host
  OPENAI_API_KEY  key for the upstream
  PARLANCE_CLUSTER_SECRET
                  secret of all nodes, at least 16 bytes; with a comma
                  between two, the first one signs and both verify

The log goes to standard output: readable on a terminal, else as JSON lines.

Examples:
  parlance serve --port 8765 --origins https://app.example
  parlance serve --host 10.0.0.7 --cluster redis://10.0.0.5 --peer-port 7946 \\
    --peer-cert node.crt --peer-key node.key --peer-ca ca.crt --peer-mutual`,
    )
    .action(async (given: ServeFlags) => {
      const { logLevel, drainTimeout, metricsPort, upstream, ...rest } = given;
      const { origins = [], hosts = [], trustedProxies = [], ...more } = rest;
      const { cluster, peerPort, advertise, peerInsecure, ...others } = more;
      const { peerCert, peerKey, peerCa, peerMutual, ...flags } = others;
      const tls = peerCert ?? peerKey ?? peerCa ?? peerMutual;
      if (cluster === undefined && (peerPort ?? advertise ?? peerInsecure ?? tls) !== undefined)
        throw new CommandFailure(
          '--advertise and all flags that begin with --peer need --cluster: name the Redis of the nodes',
          ExitCode.USAGE,
        );
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
            hosts: splitList(hosts),
            trustedProxies: splitList(trustedProxies),
            token,
            cluster:
              cluster === undefined
                ? undefined
                : {
                    url: cluster,
                    peerPort: peerPort ?? 0,
                    advertise,
                    isInsecure: peerInsecure ?? false,
                    secret: clusterSecret,
                    tls:
                      tls === undefined
                        ? undefined
                        : { cert: peerCert, key: peerKey, ca: peerCa, isMutual: peerMutual ?? false },
                  },
          },
          output,
        ),
      );
    });
}

const TOKEN_HELP =
  'token to present; the environment variable PARLANCE_TOKEN keeps it out of the process list';

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
        token = environment.token,
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
      'Prints the parts of a kept reply as they come, to its end. Without the ID or the name of a reply, lists those that may be followed. Ctrl-C leaves, and the reply goes on.',
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
      const { token = environment.token, after, stop = false, quiet = false } = flags;
      const { follow } = await import('./follow.js');
      const { createFollowView } = await import('./follow-view.js');
      const view = createFollowView(output, errors, { quiet });
      finish(await follow(url, { reply, after, stop, token }, view));
    });
}
