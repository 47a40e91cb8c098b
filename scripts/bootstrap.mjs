// Installs the workspace when it is missing or older than the lockfile. Only Node and npm may be assumed.
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync, utimesSync } from 'node:fs';

const root = new URL('..', import.meta.url);
const modified = (path) => statSync(new URL(path, root), { throwIfNoEntry: false })?.mtimeMs ?? 0;

if (modified('node_modules/.modules.yaml') < modified('pnpm-lock.yaml')) {
  const { packageManager } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
  console.error('Installing what is missing; this takes a moment, and only this time …');
  const args = ['--yes', packageManager, 'install', '--frozen-lockfile', '--loglevel=error'];
  const result = spawnSync('npx', args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  process.exitCode = result.status ?? 1;
  // An install that finds nothing to do leaves the file as old as it was.
  const now = new Date();
  if (process.exitCode === 0) utimesSync(new URL('node_modules/.modules.yaml', root), now, now);
}
