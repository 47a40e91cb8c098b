import { packOnce, tarballsIn } from './pack.js';
import { run } from './run.js';

/**
 * Runs publint and are-the-types-wrong on the packed packages, after a build. Takes the folder of tarballs if
 * they are packed already. CommonJS gets modules, too: `require` of every supported Node takes them.
 */

let failed = 0;
const tarballs = tarballsIn(process.argv[2] ?? (await packOnce()));
for (const tarball of tarballs) {
  failed += (await run('npx', ['--no-install', 'publint', tarball, '--strict'])).failed;
  const attw = ['attw', tarball, '--profile', 'node16', '--ignore-rules', 'cjs-resolves-to-esm'];
  failed += (await run('npx', ['--no-install', ...attw])).failed;
}
console.log(`${2 * tarballs.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
