import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { arrowsOf, circlesIn } from './arrows.js';
import { membersOf } from './members.js';
import { Floors } from './rooms.js';
import { codeLines, sourcesIn } from './sources.js';
import { filesWith } from './words.js';

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
  const floors = new Floors(
    folder,
    { base: { floor: 1, files: ['base/'] }, top: { floor: 2, files: ['top/'] } },
    sources,
  );
  const upward = floors.upwardIn(arrowsOf(folder, sources));
  expect(upward.map(({ from, to }) => [from, to].map((path) => path.slice(folder.length + 1)))).toEqual([
    ['base/a.ts', 'top/b.ts'],
    ['base/c.ts', 'top/node.ts'],
    ['base/c.ts', 'top/web.ts'],
  ]);
});

it('finds an import of another room on the same floor', () => {
  const sources = build({ 'a/a.ts': "import '../b/b.js';\n", 'b/b.ts': '' });
  const rooms = { a: { floor: 1, files: ['a/'] }, b: { floor: 1, files: ['b/'] } };
  expect(new Floors(folder, rooms, sources).upwardIn(arrowsOf(folder, sources))).toHaveLength(1);
});

it('puts a file into the room whose entry is the longest, and names files and entries that are left', () => {
  const sources = build({ 'a/b.ts': '', 'a/c-one.ts': '', 'loose.ts': '' });
  const floors = new Floors(
    folder,
    { all: { floor: 1, files: ['a/', 'gone/'] }, one: { floor: 2, files: ['a/c*.ts'] } },
    sources,
  );
  expect(floors.rooms).toBe(2);
  expect(floors.floors).toBe(2);
  expect(floors.homeless).toEqual([join(folder, 'loose.ts')]);
  expect(floors.stale).toEqual(['gone/']);
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

it('finds who speaks of a feature outside its rooms', () => {
  const sources = build({
    'agents/a.ts': '// agents\n',
    'b.ts': '/** For Agents. */\n',
    'c.ts': "  'user-agent',\n",
    'd.ts': 'const agentsOf = 1;\n',
  });
  const word = {
    pattern: '\\bagents?\\b',
    rooms: [join(folder, 'agents/')],
    allowed: ["c.ts: 'user-agent',"],
  };
  expect(filesWith(word, sources)).toEqual({ files: [join(folder, 'b.ts')], stale: [] });
  expect(filesWith({ ...word, allowed: ['b.ts: gone', 'c.ts: gone'] }, sources)).toEqual({
    files: [join(folder, 'b.ts'), join(folder, 'c.ts')],
    stale: ['b.ts: gone', 'c.ts: gone'],
  });
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
