import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The sources of a package: what is shipped, without tests and generated files. */

export interface Source {
  /** From the root of the repository: `packages/server/src/server/server.ts`. */
  readonly path: string;
  readonly lines: readonly string[];
}

const IS_SOURCE = /(?<!\.test|\.gen|\.d)\.tsx?$/;

/** The sources under a folder, by path. */
export function sourcesIn(folder: string): readonly Source[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => IS_SOURCE.test(name) && !`/${name}`.includes('/testing/'))
    .sort()
    .map((name) => {
      const path = join(folder, name);
      return { path, lines: readFileSync(path, 'utf8').replace(/\n$/, '').split('\n') };
    });
}

/** Lines that are neither blank nor begin with `//`, `/*` or `*`. */
export const codeLines = ({ lines }: Source): number =>
  lines.filter((line) => !/^\s*(?:$|\/\/|\/\*|\*)/.test(line)).length;
