import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isFull } from './extent.js';
import { packOnce, tarballsIn } from './pack.js';
import { run } from './run.js';

/**
 * Compiles e2e/user-project against the packed packages, with each of its tsconfig files. pnpm installs them, so
 * that the project reaches `@parlance/server` and `@parlance/client` but not what these depend on. Takes the folder
 * of tarballs if they are packed already.
 */

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'parlance-user-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

const [protocol, server, client] = tarballsIn(process.argv[2] ?? (await packOnce())).map(
  (path) => `file:${path}`,
);
const manifest = {
  private: true,
  type: 'module',
  dependencies: { '@parlance/client': client, '@parlance/server': server, ws: '^8' },
  devDependencies: {
    '@standard-schema/spec': '^1',
    '@types/node': '^20',
    '@types/ws': '^8',
    arktype: '^2',
    // The oldest one that the quick start names.
    typescript: '~5.7.0',
    valibot: '^1',
    zod: '^4',
  },
  // The packages name each other by version, which no registry has yet.
  pnpm: { overrides: { '@parlance/client': client, '@parlance/protocol': protocol } },
};
cpSync(join(root, 'e2e', 'user-project'), folder, { recursive: true });
writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
execFileSync(
  join(root, 'node_modules', '.bin', 'pnpm'),
  ['install', '--prefer-offline', '--loglevel=error'],
  { cwd: folder, stdio: 'inherit' },
);

let failed = 0;
const configs = readdirSync(folder).filter((file) => {
  // A service with the strictest options is compiled in any case.
  return /^tsconfig\..+\.json$/.test(file) && (isFull || file !== 'tsconfig.node16.json');
});
for (const config of configs) {
  console.log(config);
  // The declarations of all packages are checked, and not those of the language.
  const args = ['--no-install', 'tsc', '-p', join(folder, config), '--skipDefaultLibCheck'];
  failed += (await run('npx', args)).failed;
}
// Last, as the types of `ws` are gone then.
rmSync(join(folder, 'node_modules', '@types', 'ws'), { recursive: true });
console.log('untyped-ws.json');
const oldest = join(folder, 'node_modules', 'typescript', 'bin', 'tsc');
failed += (await run('node', [oldest, '-p', join(folder, 'untyped-ws.json'), '--skipDefaultLibCheck']))
  .failed;
console.log(`${configs.length + 1 - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
