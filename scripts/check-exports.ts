import { run } from './run.js';

/** What a user would install: publint and are-the-types-wrong for each package, after a build. */

let failed = 0;
for (const name of ['protocol', 'server', 'client']) {
  const folder = `packages/${name}`;
  failed += (await run('npx', ['--no-install', 'publint', folder, '--strict'])).failed;
  failed += (await run('npx', ['--no-install', 'attw', '--pack', folder, '--profile', 'esm-only'])).failed;
}
console.log(`${6 - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
