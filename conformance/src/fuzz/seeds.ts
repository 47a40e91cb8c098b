import { readFileSync } from 'node:fs';
import { isRecord } from '../fields.js';
import { bytesOfText } from './target.js';

/** Inputs to begin with: what the vectors hold, and the committed finds of earlier runs. */

/** Vectors above this length teach little and cost much. */
const MAX_SEED = 2048;

const SEED_FILE = new URL('../../corpus/seeds.json', import.meta.url);

/** The values of all fields of one of these names, anywhere in a vector file, as bytes. */
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
export type SeedFile = Record<string, readonly string[]>;

export function readSeedFile(): SeedFile {
  return JSON.parse(readFileSync(SEED_FILE, 'utf8')) as SeedFile;
}

export const seedFilePath = SEED_FILE;
