import { readFileSync } from 'node:fs';
import { PUBLISHED, packOnce, tarballsIn } from './pack.js';
import { obstacles, publication } from './publication.js';
import { run } from './run.js';

/**
 * `npm run release` says what a release would publish and what it lacks; with `--publish` it publishes, in a workflow that the
 * registry trusts. Nothing is packed for publication while a fact is missing. Exit code 1: not published.
 */

const doesPublish = process.argv.includes('--publish');
const packages = PUBLISHED.map(
  (name) =>
    JSON.parse(readFileSync(new URL(`../packages/${name}/package.json`, import.meta.url), 'utf8')) as {
      readonly name: string;
      readonly version: string;
    },
);
for (const { name, version } of packages) console.log(`${name} ${version}`);
const missing = obstacles(publication, packages);
if (missing.length > 0) {
  console.error(`\nNot ready to be published:\n${missing.map((each) => `- ${each}`).join('\n')}`);
  process.exit(1);
}

const tarballs = tarballsIn(await packOnce(), PUBLISHED);
for (const tarball of tarballs) {
  const mode = doesPublish ? ['--provenance'] : ['--dry-run'];
  const { failed } = await run('npm', ['publish', tarball, '--access', 'public', ...mode]);
  // What stands above a package that was not published is not published either.
  if (failed > 0) process.exit(1);
}
