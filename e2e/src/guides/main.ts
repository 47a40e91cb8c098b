import { launchChromium } from '../../../scripts/chromium.js';
import { readCommandLine } from '../../../scripts/command-line.js';
import { Pasted } from '../../../scripts/pasted.js';
import { GUIDES } from './guides.js';
import { PACKAGES_OF_GUIDES } from './packages.js';

/** Follows each guide of docs/guide that is a whole program, with the packed packages and one installation for all. */

const USAGE = `node --import tsx --conditions=@parlance/source e2e/src/guides/main.ts [--only NAME] [FOLDER]

FOLDER contains the tarballs if they are packed already.

  --only NAME    guides with this in their name`;

const { values, positionals } = readCommandLine(USAGE, {
  allowPositionals: true,
  options: { only: { type: 'string' } },
});

const guides = Object.entries(GUIDES).filter(([name]) => name.includes(values.only ?? ''));
await using pasted = await Pasted.create(PACKAGES_OF_GUIDES, positionals[0]);
await using browser = await launchChromium();
const failures: string[] = [];
for (const [name, follow] of guides) {
  const begun = performance.now();
  try {
    // Next.js looks for its packages beside its configuration alone.
    const folder = name === 'nextjs' ? '' : name;
    pasted.paste(`docs/guide/${name}.md`, folder);
    await follow({ pasted, browser, folder });
    console.log(`✓ ${name}, ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  } catch (error) {
    console.error(`✗ ${name}: ${error instanceof Error ? error.stack : error}`);
    failures.push(`✗ ${name}: ${String(error).split('\n').slice(0, 4).join('\n')}`);
  }
}
// Again at the end, where CI looks for them.
for (const failure of failures) console.log(failure);
console.log(`${guides.length - failures.length} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
