import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { arrowsOf, circlesIn } from './arrows.js';
import { overridesOf } from './lint.js';
import { membersOf } from './members.js';
import { Floors } from './rooms.js';
import { codeLines, sourcesIn } from './sources.js';

let folder: string;
beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), 'parlance-house-')), 'src');
});
afterEach(() => rmSync(dirname(folder), { recursive: true }));

/** A package with these sources. */
function build(files: Readonly<Record<string, string>>) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return sourcesIn(folder);
}

it('counts lines of code, without tests, generated files and helpers of tests', () => {
  const sources = build({
    'a.ts': '/** What\n * it is.\n */\n\nconst a = 1; // one\n  // two\nconst b = a * 2;\n',
    'a.test.ts': 'const c = 3;\n',
    'table.gen.ts': 'const d = 4;\n',
    'testing/e.ts': 'const e = 5;\n',
  });
  expect(sources.map(codeLines)).toEqual([2]);
});

it('finds imports that run up, those of types and own names included', () => {
  const sources = build({
    '../package.json':
      '{ "imports": { "#top": { "node": "./src/top/node.ts", "default": "./src/top/web.ts" } } }',
    'base/a.ts': "import type { B } from '../top/b.js';\nexport type C = import('../top/b.js').B;\n",
    'base/c.ts': "import '#top';\nimport './a.js';\n",
    'top/b.ts': "import '../base/c.js';\n",
    'top/node.ts': '',
    'top/web.ts': '',
  });
  const floors = new Floors(folder, { base: 1, top: 2 }, sources);
  const upward = floors.upwardIn(arrowsOf(folder, sources));
  expect(upward.map(({ from, to }) => [from, to].map((path) => path.slice(folder.length + 1)))).toEqual([
    ['base/a.ts', 'top/b.ts'],
    ['base/c.ts', 'top/node.ts'],
    ['base/c.ts', 'top/web.ts'],
  ]);
});

it('finds an import of another room on the same floor', () => {
  const sources = build({ 'a/a.ts': "import '../b/b.js';\n", 'b/b.ts': '' });
  expect(new Floors(folder, { a: 1, b: 1 }, sources).upwardIn(arrowsOf(folder, sources))).toHaveLength(1);
});

it('takes folders and files of `src` for rooms, and names files that are in none, and rooms without files', () => {
  const sources = build({ 'a/b.ts': '', 'a/c/d.ts': '', 'one.ts': '', 'loose.ts': '', 'new/e.ts': '' });
  const floors = new Floors(folder, { a: 1, 'one.ts': 2, gone: 2 }, sources);
  expect([floors.rooms, floors.floors]).toEqual([3, 2]);
  expect(floors.homeless).toEqual(['loose.ts', 'new/e.ts'].map((name) => join(folder, name)));
  expect(floors.empty).toEqual(['gone']);
});

it('makes a rule of the linter for each room with something above or beside it', () => {
  build({
    'base/a.ts': '',
    '../package.json': '{ "imports": { "#top": { "default": "./src/top/web.ts" } } }',
  });
  const groups = overridesOf(folder, { 'index.ts': 3, top: 3, 'loose.ts': 2, base: 1 }).map((override) => [
    override.includes?.[0]?.slice(folder.length + 1),
    override.linter?.rules?.style?.noRestrictedImports?.options.patterns.flatMap(({ group }) => group),
  ]);
  expect(groups).toEqual([
    ['index.ts', ['**/top/**', '#top']],
    ['loose.ts', ['**/top/**', '#top']],
    ['base/**', ['**/top/**', '#top', '../loose.js']],
  ]);
});

it('finds circles of types, each once', () => {
  const sources = build({
    'a.ts': "import type { B } from './b.js';\n",
    'b.ts': "export type { C } from './c.js';\n",
    'c.ts': "const load = () => import('./a.js');\n",
    'd.ts': "import './a.js';\nimport './e.js';\n",
    'e.ts': "import './a.js';\n",
  });
  const circles = circlesIn(arrowsOf(folder, sources));
  expect(circles).toEqual([['a.ts', 'b.ts', 'c.ts'].map((name) => join(folder, name))]);
});

it('counts inherited members of an interface', () => {
  build({
    '../tsconfig.json': '{ "compilerOptions": { "module": "nodenext" } }',
    'base.ts': 'export interface Base { one?: number; two?: number }\n',
    'own.ts':
      "import type { Base } from './base.js';\nexport interface Own extends Pick<Base, 'one'> { three?: number }\n",
  });
  const file = join(folder, 'own.ts');
  expect(membersOf(file, 'Own', join(folder, '../tsconfig.json'))).toEqual(['three', 'one']);
  expect(() => membersOf(file, 'Other', join(folder, '../tsconfig.json'))).toThrow('declares no Other');
});
