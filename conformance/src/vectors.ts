import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAMILIES } from './families.js';
import { type Case, casesOf, type Family } from './family.js';

/** A file of a folder that a family knows, with its cases. */
export interface VectorFile {
  readonly family: Family;
  readonly cases: readonly Case[];
}

/**
 * Reads every file of a folder whose name a family knows; those that are absent are none of its
 * business.
 *
 * @throws where the folder cannot be read.
 */
export function readVectors(folder: string): VectorFile[] {
  const present = readdirSync(folder);
  return FAMILIES.filter(({ file }) => present.includes(file)).map((family) => {
    let document: unknown;
    try {
      document = JSON.parse(readFileSync(join(folder, family.file), 'utf8'));
    } catch (error) {
      // Not an object either, and so a case that fails.
      document = String(error);
    }
    return { family, cases: casesOf(family, document) };
  });
}

/** JSON files of a folder that no family knows. */
export function unknownFiles(folder: string): string[] {
  const known = FAMILIES.map(({ file }) => file);
  return readdirSync(folder).filter((name) => name.endsWith('.json') && !known.includes(name));
}
