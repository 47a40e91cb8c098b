import { readFileSync } from 'node:fs';
import { Algorithm, EncodingName, Subprotocol } from '@parlance/protocol';
import { Command, Option } from 'commander';
import { CommandFailure, ExitCode } from './failure.js';
import type { LogLevel } from './log.js';
import { nameOf, shapeOf, splitList, wholeNumber } from './option-values.js';
import type { Terminal } from './terminal.js';
import type { Codec, EncodeCommandOptions } from './transcode.js';

/**
 * The commands and their options. What a command does is in a file of its own, which is loaded when it
 * is asked for: none waits for the libraries of the others.
 */

export interface Surroundings {
  readonly output: Terminal;
  readonly errors: Terminal;
  /** Whether a person types what is read. */
  readonly isTyped: boolean;
  /** Clients present it, and a server demands it. */
  readonly token: string | undefined;
  /** The key of an upstream. */
  readonly apiKey: string | undefined;
}

const EXIT_CODES =
  '\nExit codes: 0 all went well, 1 something failed or a frame is damaged, 2 the command line is wrong.';

/** @param finish is told how a command ended. */
export function createProgram(around: Surroundings, finish: (code: ExitCode) => void): Command {
  const { output, errors } = around;
  const program = new Command('parlance')
    .description('Runs and talks to Parlance session servers, and explains what travels between them.')
    .version(version(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show this')
    .helpCommand('help [command]', 'show what a command does')
    .exitOverride()
    .configureOutput({ writeOut: (text) => output.write(text), writeErr: (text) => errors.write(text) })
    .showHelpAfterError('(--help shows what there is)')
    .addHelpText('afterAll', EXIT_CODES);
  addServe(program, around, finish);
  addConnect(program, around, finish);
  addInspect(program, around, finish);
  addEncode(program, around, finish);
  addDecode(program, around, finish);
  return program;
}

type Finish = (code: ExitCode) => void;

interface ServeFlags {
  readonly port: number;
  readonly host: string;
  readonly path: string;
  readonly upstream?: string;
  readonly origins?: readonly string[];
  readonly logLevel: LogLevel;
  readonly drainTimeout: number;
}

function addServe(program: Command, { output, token, apiKey }: Surroundings, finish: Finish): void {
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
    )
    .option('--origins <origins...>', 'origins of web pages that may connect, such as https://app.example')
    .addOption(new Option('--log-level <level>', 'how much is logged').choices(LOG_LEVELS).default('info'))
    .option(
      '--drain-timeout <ms>',
      'how long sessions may go on after SIGTERM',
      wholeNumber(0, 3_600_000),
      30_000,
    )
    .addHelpText(
      'after',
      `
OPENAI_API_KEY is shown to the upstream.
With PARLANCE_TOKEN set, clients have to present that token; without it only this machine is served.
The log is JSON, a line an entry, where no terminal shows it.

Example:
  parlance serve --port 8765 --origins https://app.example`,
    )
    .action(async ({ logLevel, drainTimeout, upstream, origins = [], ...flags }: ServeFlags) => {
      const { serve } = await import('./serve.js');
      finish(
        await serve(
          {
            ...flags,
            logLevel,
            drainTimeoutMs: drainTimeout,
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
  readonly send: boolean;
  readonly timeout: number;
  readonly json: boolean;
  readonly quiet: boolean;
  readonly everyFrame: boolean;
}

function addConnect(program: Command, around: Surroundings, finish: Finish): void {
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
      'how everything that is sent is coded (default: whatever is smallest)',
      nameOf(Object.values(Algorithm)),
    )
    .option(
      '-e, --encoding <name>',
      'the only tokenizer vocabulary to offer',
      nameOf(Object.values(EncodingName)),
    )
    .option('--agent-id <id>', 'how this client calls itself')
    .option('-m, --model <name>', 'make the lines a chat with this model')
    .option('--send', 'make the lines one-way messages', false)
    .addOption(
      new Option('--subprotocol <name>', 'm2m.v1.json is readable on the wire, and without requests')
        .choices(Object.values(Subprotocol))
        .default(Subprotocol.BINARY),
    )
    .option('--timeout <ms>', 'how long a reply may take', wholeNumber(1, 2 ** 31 - 1), 60_000)
    .option('--every-frame', 'a line for every part of a reply', false)
    .option('--json', 'everything as JSON on standard output, an object a line', false)
    .option('-q, --quiet', 'replies only', false)
    .addHelpText(
      'after',
      `
Examples:
  parlance connect ws://127.0.0.1:8765/session
  echo "why is the sky blue?" | parlance connect --quiet ws://127.0.0.1:8765/session`,
    )
    .action(async (url: string, flags: ConnectFlags) => {
      const {
        json,
        quiet,
        everyFrame,
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

interface InspectFlags {
  readonly hex: boolean;
  readonly json: boolean;
  readonly as: 'auto' | 'binary' | 'text' | 'hex';
  readonly encoding?: EncodingName;
  readonly preview: number;
}

function addInspect(program: Command, { output }: Surroundings, finish: Finish): void {
  program
    .command('inspect <frame>')
    .summary('explain a frame, byte by byte')
    .description(
      'Explains one WebSocket message of any kind: a file, - for standard input, or hex digits. Nothing is decrypted, and credentials are not shown.',
    )
    .option('-x, --hex', 'show the bytes beside the fields', false)
    .option('--json', 'the explanation as JSON', false)
    .addOption(
      new Option('--as <form>', 'what the input holds: a binary message, a text message, or hex digits')
        .choices(['auto', 'binary', 'text', 'hex'])
        .default('auto'),
    )
    .option(
      '-e, --encoding <name>',
      'vocabulary of the session, which link frames do not name',
      nameOf(Object.values(EncodingName)),
    )
    .option('--preview <length>', 'characters of content to show', wholeNumber(0, 1_000_000), 400)
    .addHelpText(
      'after',
      `
Examples:
  parlance inspect 100001b24d0bfd0e00
  parlance inspect --hex frame.bin
  echo '{"model":"gpt-4o","messages":[]}' | parlance encode -a M2M --binary | parlance inspect -`,
    )
    .action(async (frame: string, { encoding, ...flags }: InspectFlags) => {
      const { inspect } = await import('./inspect.js');
      finish(await inspect(frame, { ...flags, encoding }, output));
    });
}

type EncodeFlags = Omit<EncodeCommandOptions, 'model'> & { readonly model?: string };

function addEncode(program: Command, { output }: Surroundings, finish: Finish): void {
  program
    .command('encode [file]')
    .summary('code a message')
    .description(
      'Codes the text of a file or of standard input, exactly as it is, and writes the result to standard output.',
    )
    .requiredOption(
      '-a, --algorithm <name>',
      'M2M, TOKEN_NATIVE, TOKEN, BROTLI, DICTIONARY, NONE or AVP',
      nameOf(CODECS),
    )
    .option(
      '-e, --encoding <name>',
      'vocabulary of TOKEN_NATIVE',
      nameOf(Object.values(EncodingName)),
      'CL100K_BASE',
    )
    .option(
      '-m, --model <name>',
      'make the text a chat request for this model; of a tensor, the model that made it',
    )
    .option('-b, --binary', 'the binary form of M2M and TOKEN_NATIVE instead of text', false)
    .option(
      '--dtype <type>',
      'AVP: type of the elements',
      nameOf(['float32', 'float16', 'bfloat16', 'int8'], (name) => name.toLowerCase()),
      'float32',
    )
    .option('--shape <dimensions>', 'AVP: such as 32,4096', shapeOf, [])
    .option(
      '--payload-type <type>',
      'AVP: hidden_state or kv_cache',
      nameOf(['hidden_state', 'kv_cache'], (name) => name.toLowerCase()),
      'hidden_state',
    )
    .option(
      '--compression <level>',
      'AVP: none, fast, balanced or max',
      nameOf(['none', 'fast', 'balanced', 'max'], (name) => name.toLowerCase()),
      'none',
    )
    .addHelpText(
      'after',
      `
Examples:
  echo "Hello, world!" | parlance encode -a TOKEN_NATIVE
  parlance encode -a AVP --shape 4096 hidden.f32 > hidden.avp`,
    )
    .action(async (file: string | undefined, { model, ...flags }: EncodeFlags) => {
      const { encode } = await import('./transcode.js');
      writeCoded(output, await encode(file ?? '-', { ...flags, model }));
      finish(ExitCode.OK);
    });
}

function addDecode(program: Command, { output }: Surroundings, finish: Finish): void {
  program
    .command('decode [file]')
    .summary('decode a message')
    .description(
      'Decodes what encode writes, from a file or standard input, and writes the content to standard output.',
    )
    .option(
      '-a, --algorithm <name>',
      'fail unless this is how it is coded (default: told from its beginning)',
      nameOf(CODECS),
    )
    .addHelpText(
      'after',
      `
Example:
  echo "Hello, world!" | parlance encode -a BROTLI | parlance decode`,
    )
    .action(async (file: string | undefined, { algorithm }: { readonly algorithm?: Codec }) => {
      const { decode } = await import('./transcode.js');
      const content = await decode(file ?? '-', algorithm);
      if (typeof content === 'string') output.write(content);
      else writeBytes(output, content);
      finish(ExitCode.OK);
    });
}

const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];
const CODECS: readonly Codec[] = [...Object.values(Algorithm), 'AVP'];

/** Text forms are lines; bytes are for a file or a pipe. */
function writeCoded(output: Terminal, coded: Uint8Array | string): void {
  if (typeof coded === 'string') output.write(`${coded}\n`);
  else writeBytes(output, coded);
}

function writeBytes(output: Terminal, bytes: Uint8Array): void {
  if (output.isInteractive) {
    throw new CommandFailure(
      'these bytes are no text for a terminal; send them to a file or to parlance inspect -',
      ExitCode.USAGE,
    );
  }
  output.write(bytes);
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
