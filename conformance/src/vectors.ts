import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAMILIES } from './families.js';
import { type Case, casesOf, type Family } from './family.js';

/** A file that a family knows, with its cases. */
export interface VectorFile {
  readonly family: Family;
  readonly cases: readonly Case[];
}

/**
 * Reads every file in a folder whose name a family knows; absent files are ignored.
 *
 * @throws if the folder cannot be read.
 */
export function readVectors(folder: string): VectorFile[] {
  const present = readdirSync(folder);
  return FAMILIES.filter(({ file }) => present.includes(file)).map((family) => {
    let document: unknown;
    try {
      document = JSON.parse(readFileSync(join(folder, family.file), 'utf8'));
    } catch (error) {
      // A string is not an object either, and so becomes a case that fails.
      document = String(error);
    }
    return { family, cases: casesOf(family, document) };
  });
}

/** JSON files in a folder that no family knows. */
export function unknownFiles(folder: string): string[] {
  const known = FAMILIES.map(({ file }) => file);
  return readdirSync(folder).filter((name) => name.endsWith('.json') && !known.includes(name));
}
