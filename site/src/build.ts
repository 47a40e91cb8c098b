import { copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vitepress';
import { deadTargets } from './dead-targets.js';
import { llmsText } from './llms.js';
import { contentOf, findPages } from './pages.js';
import { writeReference } from './reference.js';

/** Builds the site into `site/dist`, after a build of the packages. Fails at a warning, and at a link that leads nowhere. */

const site = fileURLToPath(new URL('..', import.meta.url));
const staging = join(site, 'pages');
const out = join(site, 'dist');

for (const folder of [staging, out]) rmSync(folder, { recursive: true, force: true });
const pages = findPages();
for (const page of pages.values()) {
  const file = join(staging, page.path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, contentOf(page, pages));
}
copyFileSync(join(site, 'index.md'), join(staging, 'index.md'));
await writeReference(join(staging, 'api'));
await build(site);

// A copy of each page in Markdown, with the pictures that it shows. The first page has only links, which are those of llms.txt.
const staged = readdirSync(staging, { recursive: true, encoding: 'utf8' });
for (const name of staged.filter((each) => /\.\w+$/.test(each))) {
  mkdirSync(dirname(join(out, name)), { recursive: true });
  copyFileSync(join(staging, name), join(out, name));
}
const text = llmsText(pages);
for (const name of ['llms.txt', 'index.md']) writeFileSync(join(out, name), text);

const dead = deadTargets(out);
for (const each of dead) console.error(each);
const count = readdirSync(out, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.html'),
).length;
console.log(`${count} pages in ${out}, ${dead.length} links that lead nowhere`);
if (dead.length > 0) process.exitCode = 1;
