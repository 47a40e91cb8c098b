import { mkdirSync, rmSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packInto, tarballsIn } from './pack.js';

/** `npm run packages`: packs what another project can install from a clone, as nothing is published yet. */

const folder = fileURLToPath(new URL('../tarballs', import.meta.url));
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
await packInto(folder);
console.log(
  `Packed into ${relative('.', folder)}. In your project:\n\n  npm install ${tarballsIn(folder).join(' ')}\n`,
);
