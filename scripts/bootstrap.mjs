// Installs the workspace if it is missing or older than the lockfile. Only Node and npm are available here.
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync, utimesSync } from 'node:fs';

const root = new URL('..', import.meta.url);
const modified = (path) => statSync(new URL(path, root), { throwIfNoEntry: false })?.mtimeMs ?? 0;

if (modified('node_modules/.modules.yaml') < modified('pnpm-lock.yaml')) {
  const { packageManager } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
  console.error('Installing the dependencies; this happens once …');
  const args = ['--yes', packageManager, 'install', '--frozen-lockfile', '--loglevel=error'];
  const result = spawnSync('npx', args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  process.exitCode = result.status ?? 1;
  // An install that changes nothing does not update the file's time.
  const now = new Date();
  if (process.exitCode === 0) utimesSync(new URL('node_modules/.modules.yaml', root), now, now);
}
