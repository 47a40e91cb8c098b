import { type Command, Option } from 'commander';
import { type CommandEnvironment, type Finish, httpUrl, splitList, wholeNumber } from '../base/command.js';
import { CommandFailure, ExitCode } from '../base/failure.js';
import {
  dataFolder,
  ENGINE_HELP,
  type EngineAddress,
  engineAddress,
  sharedUrl,
} from '../engine/engine-address.js';
import type { LogLevel } from './log.js';

/** `serve`, the server's end of a session. */

const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];
interface ServeFlags {
  readonly port: number;
  readonly host: string;
  readonly path: string;
  readonly http?: boolean;
  readonly upstream?: string;
  readonly origins?: readonly string[];
  readonly hosts?: readonly string[];
  readonly trustedProxies?: readonly string[];
  readonly logLevel: LogLevel;
  readonly drainTimeout: number;
  readonly metricsPort?: number;
  readonly adminPort?: number;
  readonly adminHost: string;
  readonly adminOperate?: boolean;
  readonly ui: boolean;
  readonly history: boolean;
  readonly data?: EngineAddress;
  readonly engine?: EngineAddress;
  readonly cluster?: string;
  readonly peerPort?: number;
  readonly advertise?: string;
  readonly peerInsecure?: boolean;
  readonly peerCert?: string;
  readonly peerKey?: string;
  readonly peerCa?: string;
  readonly peerMutual?: boolean;
}

export function addServe(program: Command, { output, variable }: CommandEnvironment, finish: Finish): void {
  program
    .command('serve')
    .summary('run a session server')
    .description(
      'Runs a session server until SIGTERM or SIGINT. Requests go to --upstream, or to a built-in responder for trying things out; one-way messages are sent back.',
    )
    .option('-p, --port <port>', 'port to listen on; 0 for any free port', wholeNumber(0, 65_535), 8765)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--path <path>', 'path of the WebSocket endpoint', '/session')
    .option('--no-http', 'serve sessions over WebSockets only, and not over HTTP as well')
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
    .option(
      '--admin-port <port>',
      'port for the operator: dashboard and `parlance top`',
      wholeNumber(0, 65_535),
    )
    .option('--admin-host <address>', 'address of that port', '127.0.0.1')
    .option('--admin-operate', 'let that port close sessions and drain the server, too')
    .option('--no-ui', 'do not show the chat page to browsers on this machine')
    .option('--no-history', 'have the chat page keep no chats in the browser')
    .option(
      '--drain-timeout <ms>',
      'milliseconds that requests may take to finish after SIGTERM',
      wholeNumber(0, 3_600_000),
      30_000,
    )
    .option('--data <folder>', 'folder in which sessions outlive this process', dataFolder)
    .option('--engine <address>', `where sessions outlive this process: ${ENGINE_HELP}`, engineAddress)
    .option(
      '--cluster <url>',
      'Redis or Postgres in which nodes find each other, such as redis://10.0.0.5',
      sharedUrl,
    )
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
  PARLANCE_ADMIN_TOKEN
                  token of the admin port, 16 characters or more
  PARLANCE_CLUSTER_SECRET
                  secret of all nodes, at least 16 bytes; with a comma
                  between two, the first one signs and both verify

The log goes to standard output: readable on a terminal, else as JSON lines.

Examples:
  parlance serve --port 8765 --origins https://app.example
  parlance serve --data /var/lib/parlance
  parlance serve --engine postgres://parlance@10.0.0.5/parlance
  parlance serve --host 10.0.0.7 --cluster redis://10.0.0.5 --peer-port 7946 \\
    --peer-cert node.crt --peer-key node.key --peer-ca ca.crt --peer-mutual`,
    )
    .action(async (given: ServeFlags) => {
      const { logLevel, drainTimeout, metricsPort, upstream, ...rest } = given;
      const { origins = [], hosts = [], trustedProxies = [], ...more } = rest;
      const { adminPort, adminHost, adminOperate, ...served } = more;
      const adminToken = variable('PARLANCE_ADMIN_TOKEN');
      if (adminPort !== undefined && adminToken === undefined)
        throw new CommandFailure(
          '--admin-port needs a token: set PARLANCE_ADMIN_TOKEN to 16 characters or more',
          ExitCode.USAGE,
        );
      const { cluster, peerPort, advertise, peerInsecure, ...others } = served;
      const { peerCert, peerKey, peerCa, peerMutual, ...flags } = others;
      const tls = peerCert ?? peerKey ?? peerCa ?? peerMutual;
      const named = (['data', 'engine'] as const).filter((name) => flags[name] !== undefined);
      if (named.length === 2)
        throw new CommandFailure('--data and --engine mean the same: leave one of them out', ExitCode.USAGE);
      const [flag] = named;
      if (cluster !== undefined && flag !== undefined)
        throw new CommandFailure(
          `--${flag} is for one process, and --cluster for several: leave one of them out`,
          ExitCode.USAGE,
        );
      const address = flag && flags[flag];
      if (cluster === undefined && (peerPort ?? advertise ?? peerInsecure ?? tls) !== undefined)
        throw new CommandFailure(
          '--advertise and all flags that begin with --peer need --cluster: name the Redis or the Postgres of the nodes',
          ExitCode.USAGE,
        );
      const { serve } = await import('./serve.js');
      finish(
        await serve(
          {
            ...flags,
            engine: address && { ...address, flag: `--${flag}` },
            logLevel,
            drainTimeoutMs: drainTimeout,
            metricsPort,
            upstream,
            apiKey: variable('OPENAI_API_KEY'),
            origins: splitList(origins),
            hosts: splitList(hosts),
            trustedProxies: splitList(trustedProxies),
            token: variable('PARLANCE_TOKEN'),
            admin:
              adminPort === undefined || adminToken === undefined
                ? undefined
                : {
                    port: adminPort,
                    host: adminHost,
                    token: adminToken,
                    mode: adminOperate ? 'operate' : 'read',
                  },
            cluster:
              cluster === undefined
                ? undefined
                : {
                    url: cluster,
                    peerPort: peerPort ?? 0,
                    advertise,
                    isInsecure: peerInsecure ?? false,
                    secret: variable('PARLANCE_CLUSTER_SECRET'),
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
