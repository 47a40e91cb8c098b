import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { appendFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { newDataFolder } from './data-folder.js';
import { freePort } from './free-port.js';

/** A Postgres of a test's own, on a free port and in a temporary folder. */
export interface PostgresServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Asks it as its superuser, over a connection for this question. */
  query(text: string): Promise<Record<string, unknown>[]>;
  /** Adds lines to its configuration, and has them read. */
  configure(...lines: readonly string[]): Promise<void>;
  /** Kills its first process, and the others with it, as a crash does. */
  kill(): Promise<void>;
  /** Ends it in order, without waiting for connections. */
  stop(): Promise<void>;
  /** Stops all its processes without ending them, until `go`. */
  pause(): void;
  go(): void;
  /** Starts it again on the same port, with what it has. */
  restart(): Promise<void>;
  /** Starts a replica that follows it. @param name by which it can be synchronous. */
  startReplica(name: string): Promise<PostgresReplica>;
}

export interface PostgresReplica extends PostgresServer {
  promote(): Promise<void>;
}

const run = promisify(execFile);

/** Debian keeps its programs out of the path. */
const ROOTS = '/usr/lib/postgresql';
const FOLDERS = existsSync(ROOTS)
  ? readdirSync(ROOTS)
      .toSorted((a, b) => Number(b) - Number(a))
      .map((version) => `${ROOTS}/${version}/bin`)
  : [];
const BIN = [...FOLDERS, '/usr/local/bin', '/usr/bin'].find((folder) => existsSync(`${folder}/postgres`));

/** Why tests that need Postgres are skipped; `undefined` if there is one. In CI it has to be there. */
export const postgresMissing: string | undefined =
  BIN === undefined && process.env['CI'] !== 'true'
    ? 'skipped without postgres: apt-get install postgresql'
    : undefined;

/** Postgres refuses to run as root. */
const IS_ROOT = process.getuid?.() === 0;
const USER = 'postgres';

const SETTINGS = [
  "listen_addresses = '127.0.0.1'",
  'max_connections = 300',
  // Replicas can be added.
  'wal_level = replica',
  'shared_buffers = 16MB',
  'autovacuum_naptime = 10s',
  'jit = off',
];

export async function startPostgres(...lines: readonly string[]): Promise<PostgresServer> {
  const data = await newFolder();
  await program(
    'initdb',
    '-D',
    data,
    '-U',
    USER,
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--locale=C',
    '--no-sync',
    '-N',
  );
  return await serve(data, lines);
}

async function newFolder(): Promise<string> {
  const folder = await newDataFolder('parlance-postgres-');
  if (IS_ROOT) {
    const [user, group] = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, USER])));
    chownSync(folder, Number(user?.stdout), Number(group?.stdout));
  }
  return folder;
}

/** A command of Postgres, as its user. */
function commandOf(name: string, args: readonly string[]): readonly [string, readonly string[]] {
  if (BIN === undefined) throw new Error('postgres is not installed');
  const path = `${BIN}/${name}`;
  return IS_ROOT
    ? ['setpriv', ['--reuid', USER, '--regid', USER, '--clear-groups', path, ...args]]
    : [path, args];
}

async function program(name: string, ...args: readonly string[]): Promise<void> {
  const [command, rest] = commandOf(name, args);
  await run(command, rest as string[], { cwd: '/' });
}

async function serve(data: string, lines: readonly string[]): Promise<PostgresServer> {
  const port = await freePort();
  const url = `postgres://${USER}@127.0.0.1:${port}/postgres`;
  const settings = [...SETTINGS, `port = ${port}`, `unix_socket_directories = '${data}'`, ...lines];
  await appendFile(join(data, 'postgresql.conf'), `${settings.join('\n')}\n`);
  let child: ChildProcess;
  const begin = async () => {
    const [command, args] = commandOf('postgres', ['-D', data]);
    child = endingWithThis(spawn(command, args, { cwd: '/', stdio: 'ignore' }));
    await until(url, child);
  };
  const signal = async (name: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(name);
    await ended;
  };
  const query = async (text: string) => {
    const client = new pg.Client(url);
    client.on('error', () => {});
    await client.connect();
    try {
      const result = await client.query(text);
      return result.rows as Record<string, unknown>[];
    } finally {
      await client.end();
    }
  };
  const signalAll = (name: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    for (const pid of [...childrenOf(child.pid ?? 0), child.pid ?? 0]) process.kill(pid, name);
  };
  await begin();
  return {
    url,
    port,
    query,
    async configure(...more) {
      await appendFile(join(data, 'postgresql.conf'), `${more.join('\n')}\n`);
      await query('SELECT pg_reload_conf()');
      // Connections that are open have it a moment later.
      await pause(100);
    },
    kill: () => signal('SIGKILL'),
    stop: () => signal('SIGINT'),
    pause: () => signalAll('SIGSTOP'),
    go: () => signalAll('SIGCONT'),
    restart: begin,
    async startReplica(name) {
      const copy = await newFolder();
      const from = `host=127.0.0.1 port=${port} user=${USER} application_name=${name}`;
      await program('pg_basebackup', '-D', copy, '-d', from, '-R', '-c', 'fast', '--no-sync');
      const replica = await serve(copy, [`primary_conninfo = '${from}'`]);
      return {
        ...replica,
        async promote() {
          await replica.query('SELECT pg_promote()');
        },
      };
    },
    async [Symbol.asyncDispose]() {
      signalAll('SIGCONT');
      await signal('SIGQUIT');
      await rm(data, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

function childrenOf(pid: number): number[] {
  const parentOf = (entry: string): number => {
    try {
      // Its name, which may have any characters, stands before the last bracket.
      const [, rest = ''] = /\) \S (.*)$/.exec(readFileSync(`/proc/${entry}/stat`, 'utf8')) ?? [];
      return Number.parseInt(rest, 10);
    } catch {
      return 0;
    }
  };
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && parentOf(entry) === pid)
    .map(Number);
}

function endingWithThis(child: ChildProcess): ChildProcess {
  const end = () => child.kill('SIGQUIT');
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
  return child;
}

/** Waits until Postgres answers. */
async function until(url: string, child: ChildProcess): Promise<void> {
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('postgres ended at once');
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.end();
      return;
    } catch {
      await pause(20);
    }
  }
}
