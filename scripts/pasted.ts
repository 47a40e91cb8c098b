import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Project } from '../e2e/src/bundlers/project.js';
import { packOnce, tarballsIn } from './pack.js';

/** Programs of pages, as a reader pastes them into a folder in which npm has installed the packed packages. */

const root = fileURLToPath(new URL('..', import.meta.url));
/** What Node 20 lacks, as the README says. */
export const SQLITE = builtinModules.includes('node:sqlite') ? [] : ['@photostructure/sqlite@1'];
/** Against hanging only. */
const MAX_MS = 120_000;

export interface Place {
  /** A folder below that of the packages. @default that of the packages */
  readonly folder?: string | undefined;
  /** Environment variables beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input, which then ends. @default nothing */
  readonly input?: string;
}

/** A program that runs. */
export interface Running {
  /** Its exit code, once it has ended; `null` if it was killed. */
  readonly ended: Promise<number | null>;
  /** All that it has printed so far, without errors. */
  text(): string;
  /** Waits until it has printed this, and returns all that it has printed. */
  printed(text: string | RegExp): Promise<string>;
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** An error with what it has printed. */
  failure(what: string): Error;
}

/** Writes the code blocks of a page that begin with a comment with the name of a file into a folder. */
export function paste(page: string, folder: string): void {
  const text = readFileSync(join(root, page), 'utf8');
  const blocks = text.matchAll(/^```\w+\n((?:\/\/|#|<!--) ([\w./-]+\.\w+)(?: -->)?\n.*?)^```$/gms);
  let count = 0;
  for (const [, code = '', name = ''] of blocks) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, code);
    count++;
  }
  if (count === 0) throw new Error(`${page} has no code block that begins with the name of a file`);
}

export class Pasted {
  readonly #project: Project;
  readonly #running = new Set<Running>();

  private constructor(project: Project) {
    this.#project = project;
  }

  /**
   * @param packages beside ours, with their versions.
   * @param tarballs the folder of ours. @default they are packed
   */
  static async create(packages: readonly string[], tarballs?: string): Promise<Pasted> {
    return new Pasted(new Project([...packages, ...tarballsIn(tarballs ?? (await packOnce()))]));
  }

  get folder(): string {
    return this.#project.folder;
  }

  /** As {@link paste}. @param folder a folder below that of the packages. @default that of the packages */
  paste(page: string, folder = ''): void {
    paste(page, join(this.folder, folder));
  }

  /** Starts a program: `node server.mjs`, or a binary of the packages. */
  start(command: string, { folder = '', env = {}, input = '' }: Place = {}): Running {
    const [name = '', ...args] = command.split(' ');
    const bin = join(this.folder, 'node_modules', '.bin');
    const { NODE_OPTIONS: _, ...inherited } = process.env;
    const child = spawn(name, args, {
      cwd: join(this.folder, folder),
      env: { ...inherited, ...env, PATH: `${bin}:${process.env['PATH']}` },
    });
    // A program that needs no input may have ended before it could be written.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    const running = new Program(child, command);
    this.#running.add(running);
    return running;
  }

  /** Runs a program to its end. @returns what it prints. @throws if it fails, or does not print each of `expected`. */
  async run(command: string, expected: readonly string[], place?: Place): Promise<string> {
    const running = this.start(command, place);
    const timer = setTimeout(() => running.kill('SIGKILL'), MAX_MS);
    const code = await running.ended;
    clearTimeout(timer);
    if (code !== 0) throw running.failure(`ended with ${code}`);
    for (const text of expected) await running.printed(text);
    return running.text();
  }

  /** Ends what still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#running].map((each) => each.kill('SIGKILL')));
  }
}

class Program implements Running {
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #command: string;
  #text = '';
  #errors = '';

  constructor(child: ChildProcessWithoutNullStreams, command: string) {
    this.#child = child;
    this.#command = command;
    this.ended = once(child, 'close').then(([code]) => code);
    this.ended.catch(() => {});
    const text = (stream: Readable, add: (chunk: string) => void) =>
      stream.setEncoding('utf8').on('data', add);
    text(child.stdout, (chunk) => (this.#text += chunk));
    text(child.stderr, (chunk) => (this.#errors += chunk));
  }

  text(): string {
    return this.#text;
  }

  printed(text: string | RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (typeof text === 'string' ? this.#text.includes(text) : text.test(this.#text)) stop(resolve);
      };
      const fail = () => stop(() => reject(this.failure(`did not print ${text}`)));
      const stop = (settle: (text: string) => void) => {
        clearTimeout(timer);
        this.#child.stdout.off('data', look);
        settle(this.#text);
      };
      const timer = setTimeout(fail, MAX_MS);
      this.#child.stdout.on('data', look);
      look();
      this.ended.then(fail, fail);
    });
  }

  failure(what: string): Error {
    return new Error(`${this.#command} ${what}:\n${this.#text}\n${this.#errors}`);
  }

  async kill(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.#child.kill(signal);
    await this.ended;
  }
}
