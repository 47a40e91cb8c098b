import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort as findPort } from '../../../packages/server/src/engine/testing/free-port.js';
import { programOf } from './programs.js';

/** Runs the command line from source, in a process of its own. */

const { file, flags } = programOf('cli');
const NODE = [process.execPath, ...flags, fileURLToPath(file)] as const;

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  /** Standard output as bytes. */
  readonly bytes: Buffer;
  readonly stderr: string;
}

export interface RunOptions {
  /** Standard input, which then ends. @default nothing */
  readonly input?: string | Uint8Array | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** The whole command line, for a shell. */
export function commandLine(...args: readonly string[]): string {
  return [...NODE, ...args].map((part) => `'${part.replaceAll("'", `'\\''`)}'`).join(' ');
}

export function start(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcessWithoutNullStreams {
  const [command, ...rest] = NODE;
  // Colours and credentials are set by the test alone.
  const { FORCE_COLOR, NO_COLOR, PARLANCE_TOKEN, OPENAI_API_KEY, ...inherited } = process.env;
  return spawn(command, [...rest, ...args], { env: { ...inherited, ...env } });
}

/** Runs a command to its end. */
export async function run(args: readonly string[], { input = '', env }: RunOptions = {}): Promise<Finished> {
  const child = start(args, env);
  const [out, err] = [chunksOf(child.stdout), chunksOf(child.stderr)];
  // A command may exit before it has read all of its input.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  const bytes = Buffer.concat(out);
  return { code, bytes, stdout: bytes.toString('utf8'), stderr: Buffer.concat(err).toString('utf8') };
}

function chunksOf(stream: NodeJS.ReadableStream): Buffer[] {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  return chunks;
}

/** Collects everything that a stream emits. */
export function collect(stream: NodeJS.ReadableStream): () => string {
  const chunks = chunksOf(stream);
  return () => Buffer.concat(chunks).toString('utf8');
}

/** A port for a server, as an argument of a command. */
export async function freePort(): Promise<string> {
  return String(await findPort());
}

/** A running `parlance serve`. */
export interface Serving {
  readonly url: string;
  readonly child: ChildProcessWithoutNullStreams;
  /** Everything that it has logged. */
  log(): string;
  /** @returns its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

export async function startServing(
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Serving> {
  const child = start(['serve', '--port', '0', ...args], env);
  const log = collect(child.stdout);
  const exit = once(child, 'close') as Promise<[number | null]>;
  for (;;) {
    const url = /"url":"(ws:[^"]+)"/.exec(log())?.[1];
    if (url !== undefined) {
      return {
        url,
        child,
        log,
        async stop(signal = 'SIGTERM') {
          child.kill(signal);
          return (await exit)[0];
        },
      };
    }
    const ended = await Promise.race([once(child.stdout, 'data').then(() => undefined), exit]);
    if (ended !== undefined) throw new Error(`serve ended with code ${ended[0]}`);
  }
}
