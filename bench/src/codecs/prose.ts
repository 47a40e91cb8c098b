import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, sep } from 'node:path';

const MIN_PARAGRAPH = 120;
const MAX_PARAGRAPH = 900;
/**
 * Shares no factor with any smaller number of paragraphs, so a walk in steps of this size visits them all.
 */
const STRIDE = 1_000_003;

/**
 * Real prose without shipping any: the paragraphs of the installed packages' READMEs, each once, in an order
 * that mixes the packages and is the same in every run.
 */
export function collectParagraphs(): string[] {
  const found = new Set<string>();
  for (const file of readmes()) {
    for (const block of readFileSync(file, 'utf8').split(/\r?\n\s*\r?\n/)) {
      const text = block.replace(/\s+/g, ' ').trim();
      const isProse = /^[A-Z][a-z]/.test(text) && !text.includes('```');
      if (isProse && text.length >= MIN_PARAGRAPH && text.length <= MAX_PARAGRAPH) found.add(text);
    }
  }
  const inOrder = [...found];
  if (inOrder.length < 100) throw new Error('too little prose in the READMEs of the installed packages');
  return inOrder.map((_, i) => inOrder[(i * STRIDE) % inOrder.length] as string);
}

/** The READMEs of the installed packages, each once, unchanged. */
export function collectReadmes(): string[] {
  return [...new Set(readmes().map((file) => readFileSync(file, 'utf8')))];
}

/** One README for each installed version of each package. */
function readmes(): string[] {
  const someFile = createRequire(import.meta.url).resolve('ws');
  const store = someFile.slice(0, someFile.indexOf(`${sep}.pnpm${sep}`) + `${sep}.pnpm`.length);
  const files: string[] = [];
  for (const version of readdirSync(store).sort()) {
    // `@scope+name@1.0.0_peer@2.0.0` holds `node_modules/@scope/name`.
    const name = version.slice(0, version.indexOf('@', 1)).replace('+', '/');
    const folder = join(store, version, 'node_modules', name);
    const readme = listed(folder).find((file) => /^readme\.md$/i.test(file));
    if (readme !== undefined) files.push(join(folder, readme));
  }
  return files;
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
