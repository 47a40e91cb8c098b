import { packOnce, tarballsIn } from './pack.js';
import { run } from './run.js';

/**
 * Runs publint and are-the-types-wrong on the packed packages, after a build. Takes the folder of tarballs if
 * they are packed already.
 */

let failed = 0;
const tarballs = tarballsIn(process.argv[2] ?? (await packOnce()));
for (const tarball of tarballs) {
  failed += (await run('npx', ['--no-install', 'publint', tarball, '--strict'])).failed;
  failed += (await run('npx', ['--no-install', 'attw', tarball, '--profile', 'esm-only'])).failed;
}
console.log(`${2 * tarballs.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
