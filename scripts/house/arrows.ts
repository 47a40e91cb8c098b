import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';
import type { Source } from './sources.js';

/** Who imports whom within a package, types included. */

/** The files that each file imports, by path. */
export type Arrows = ReadonlyMap<string, ReadonlySet<string>>;

/** @param folder the `src` of a package. */
export function arrowsOf(folder: string, sources: readonly Source[]): Arrows {
  const paths = new Set(sources.map(({ path }) => path));
  const aliases = aliasesOf(folder);
  return new Map(
    sources.map(({ path, lines }) => {
      const { importedFiles } = ts.preProcessFile(lines.join('\n'), true, true);
      const targets = importedFiles.flatMap(({ fileName }) =>
        fileName.startsWith('.')
          ? [join(dirname(path), fileName)]
          : aliases.filter(({ name }) => name === fileName).map((alias) => alias.path),
      );
      return [path, new Set(targets.map(sourceOf).filter((target) => paths.has(target)))];
    }),
  );
}

const sourceOf = (path: string): string => path.replace(/\.js(x?)$/, '.ts$1');

/** The files that names such as `#platform` stand for: Node and pages get different ones. @param folder the `src` of a package. */
export function aliasesOf(folder: string): readonly { readonly name: string; readonly path: string }[] {
  const file = join(folder, '../package.json');
  const { imports = {} } = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  return Object.entries(imports).flatMap(([name, target]) =>
    [...JSON.stringify(target).matchAll(/"\.\/(src\/[^"]+)"/g)].map(([, path]) => ({
      name,
      path: join(folder, '..', path as string),
    })),
  );
}

/** Files that reach each other, one array for each circle (Tarjan's components of more than one file). */
export function circlesIn(arrows: Arrows): readonly (readonly string[])[] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (path: string): number => {
    const index = order.size;
    order.set(path, index);
    lowest.set(path, index);
    stack.push(path);
    for (const target of arrows.get(path) ?? []) {
      const seen = order.get(target);
      const reached = seen === undefined ? visit(target) : stack.includes(target) ? seen : index;
      lowest.set(path, Math.min(lowest.get(path) as number, reached));
    }
    const low = lowest.get(path) as number;
    if (low === index) {
      const circle = stack.splice(stack.indexOf(path));
      if (circle.length > 1) circles.push(circle.sort());
    }
    return low;
  };
  for (const path of arrows.keys()) if (!order.has(path)) visit(path);
  return circles;
}
