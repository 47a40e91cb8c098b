import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { within } from '../late.js';
import { newDataFolder } from './data-folder.js';
import { freePort } from './free-port.js';

/** A Redis of a test's own, on a free port and in a temporary folder. */
export interface RedisServer extends AsyncDisposable {
  readonly url: string;
  /** A client of the test. */
  readonly client: Redis;
  /** Kills the process. */
  kill(): Promise<void>;
  /** Stops the process without ending it, until `go`. */
  pause(): void;
  go(): void;
  /** Starts another one on the same port. */
  restart(): Promise<void>;
}

const FOLDERS = ['/usr/bin', '/usr/local/bin'];
const find = (name: string) => FOLDERS.map((folder) => `${folder}/${name}`).find((path) => existsSync(path));
const VALKEY = find('valkey-server');
const PROGRAM = find('redis-server') ?? VALKEY;

/** Why tests that need Redis are skipped; `undefined` if there is one. In CI it has to be there. */
export const redisMissing: string | undefined =
  PROGRAM === undefined && process.env['CI'] !== 'true'
    ? 'skipped without redis-server: apt-get install redis-server'
    : undefined;

/** Why tests are skipped that run with Valkey as well. Debian has it from version 13 on. */
export const valkeyMissing: string | undefined =
  VALKEY === undefined ? 'skipped without valkey-server: apt-get install valkey-server' : undefined;

export function startRedis(...options: readonly string[]): Promise<RedisServer> {
  return startServer(PROGRAM, options);
}

export function startValkey(...options: readonly string[]): Promise<RedisServer> {
  return startServer(VALKEY, options);
}

async function startServer(program: string | undefined, options: readonly string[]): Promise<RedisServer> {
  if (program === undefined) throw new Error('redis-server is not installed');
  const folder = await newDataFolder('parlance-redis-');
  const port = await freePort();
  const base = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''];
  let child: ChildProcess;
  const begin = async () => {
    child = endingWithThis(spawn(program, [...base, '--appendonly', 'no', ...options], { stdio: 'ignore' }));
    await until(port, child);
  };
  await begin();
  const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
  client.on('error', () => {});
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await within(ended, 60_000, () => new Error(`Redis at ${port} lives although it was killed`));
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    client,
    kill,
    pause: () => child.kill('SIGSTOP'),
    go: () => child.kill('SIGCONT'),
    restart: begin,
    async [Symbol.asyncDispose]() {
      client.disconnect();
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A Sentinel that is left over makes replicas of the servers that get its ports next. */
function endingWithThis(child: ChildProcess): ChildProcess {
  const end = () => child.kill('SIGKILL');
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
  return child;
}

/** Waits until Redis answers. */
async function until(port: number, child: ChildProcess): Promise<void> {
  const probe = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null, retryStrategy: () => 20 });
  probe.on('error', () => {});
  const ended = once(child, 'exit').then(() => {
    throw new Error('redis-server ended at once');
  });
  ended.catch(() => {});
  try {
    await Promise.race([probe.ping(), ended]);
  } finally {
    probe.disconnect();
  }
}

/** A Sentinel that watches one primary, and promotes a replica of it soon after it has failed. */
export interface SentinelServer extends AsyncDisposable {
  readonly port: number;
  /** Replicas that it knows of. */
  replicas(): Promise<number>;
  /** A client of the primary, whichever that is. */
  connect(): Redis;
}

/** @param name by which clients ask for the primary. */
export async function startSentinel(name: string, primaryPort: number): Promise<SentinelServer> {
  if (PROGRAM === undefined) throw new Error('redis-server is not installed');
  const folder = await newDataFolder('parlance-sentinel-');
  const port = await freePort();
  // It writes down there what it decides.
  const file = join(folder, 'sentinel.conf');
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${name} 127.0.0.1 ${primaryPort} 1`,
    `sentinel down-after-milliseconds ${name} 500`,
    `sentinel failover-timeout ${name} 5000`,
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const child = endingWithThis(spawn(PROGRAM, [file, '--sentinel'], { stdio: 'ignore' }));
  await until(port, child);
  const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
  const clients = [client];
  client.on('error', () => {});
  return {
    port,
    async replicas() {
      const found = await client.call('SENTINEL', 'replicas', name);
      return Array.isArray(found) ? found.length : 0;
    },
    connect() {
      const each = new Redis({ sentinels: [{ host: '127.0.0.1', port }], name });
      each.on('error', () => {});
      clients.push(each);
      return each;
    },
    async [Symbol.asyncDispose]() {
      for (const each of clients) each.disconnect();
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
