import { readFileSync, writeFileSync } from 'node:fs';
import { isRecord } from '../fields.js';
import { bytesOfText } from './target.js';

/** Initial inputs: from the vectors, and the committed finds of earlier runs. */

/** Longer vectors add little coverage and cost much time. */
const MAX_SEED = 2048;

const SEED_FILE = new URL('../../corpus/seeds.txt', import.meta.url);

/** The values of all fields with one of these names, anywhere in a vector file, as bytes. */
export function seedsFrom(file: string, ...fields: readonly string[]): Uint8Array[] {
  const document = JSON.parse(
    readFileSync(new URL(`../../vectors/${file}`, import.meta.url), 'utf8'),
  ) as unknown;
  const found = new Map<string, Uint8Array>();
  const visit = (value: unknown, name: string): void => {
    if (Array.isArray(value)) for (const entry of value) visit(entry, name);
    else if (isRecord(value)) for (const [key, entry] of Object.entries(value)) visit(entry, key);
    else if (typeof value === 'string' && fields.includes(name)) {
      const isHex = /^(?:[0-9a-f]{2})+$/.test(value);
      const bytes = isHex ? new Uint8Array(Buffer.from(value, 'hex')) : bytesOfText(value);
      if (bytes.length <= MAX_SEED) found.set(value, bytes);
    }
  };
  visit(document, '');
  return [...found.values()];
}

/** Finds by target, as hex. */
export type Finds = ReadonlyMap<string, readonly string[]>;

/** Reads the committed finds: one line each, with a target's name and hex. */
export function readFinds(): Finds {
  const finds = new Map<string, string[]>();
  for (const line of readFileSync(SEED_FILE, 'utf8').split('\n')) {
    const [target, hex] = line.split(' ');
    if (target && hex !== undefined) finds.set(target, [...(finds.get(target) ?? []), hex]);
  }
  return finds;
}

/** Writes finds, the shortest of each target first, so that their order does not depend on the run. */
export function writeFinds(finds: Finds): void {
  const lines = [...finds].flatMap(([target, inputs]) =>
    inputs.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1)).map((hex) => `${target} ${hex}\n`),
  );
  writeFileSync(SEED_FILE, lines.join(''));
}
