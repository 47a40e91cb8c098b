import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { arrowsOf, circlesIn } from './house/arrows.js';
import { isOfFloors, type Override, overridesOf } from './house/lint.js';
import { membersOf } from './house/members.js';
import { Floors, type Rooms } from './house/rooms.js';
import { codeLines, type Source, sourcesIn } from './house/sources.js';

/**
 * Measures the house: code lines, rooms and floors, imports up, circles and long files. Fails if a figure is over its ceiling in
 * `house/budget.json`, if `house/rooms.json` lacks a room, or if the rules of the linter are not those of its floors. Ceilings only
 * go down. `--write` lowers them to the figures and writes the rules; `--list FIGURE` shows what a figure counts.
 */

const [BUDGET, ROOMS, LINTER] = [
  'scripts/house/budget.json',
  'scripts/house/rooms.json',
  'biome.json',
] as const;
const MAX_LINES = 400;
/** Options of the codecs, which the server only passes on. */
const OUTSIDE_THE_COUNT = new Set(['algorithms', 'encodings']);

interface Figure {
  readonly name: string;
  readonly count: number;
  /** What is counted, one line each. @default nothing to show */
  readonly items?: readonly string[];
}

const budget = read<Record<string, number>>(BUDGET);
const houses = read<Record<string, Rooms>>(ROOMS);
const args = process.argv.slice(2);

const figures: Figure[] = [];
const faults: string[] = [];
const all = new Map(Object.keys(houses).map((folder) => [folder, sourcesIn(folder)]));
const core = ['protocol', 'server', 'cli'].flatMap((name) => sourcesOf(`packages/${name}/src`));

figures.push({ name: 'code lines of protocol, server and cli', count: sum(core.map(codeLines)) });
for (const [folder, sources] of all) {
  const name = folder.split('/')[1] as string;
  const rooms = houses[folder] as Rooms;
  const floors = new Floors(folder, rooms, sources);
  const arrows = arrowsOf(folder, sources);
  const circles = circlesIn(arrows);
  const upward = floors.upwardIn(arrows);
  const loose = sources.filter(({ path }) => !path.slice(folder.length + 1).includes('/'));
  const long = sources.filter(({ lines }) => lines.length > MAX_LINES);
  figures.push(
    { name: `${name}: rooms`, count: floors.rooms },
    { name: `${name}: floors`, count: floors.floors },
    list(
      `${name}: loose files`,
      loose.map(({ path }) => path),
    ),
    list(`${name}: imports up`, upward.map(({ pair, from, to }) => `${pair}: ${from} imports ${to}`).sort()),
    list(
      `${name}: circles`,
      circles.map((circle) => circle.join(', ')),
    ),
    list(
      `${name}: files over ${MAX_LINES} lines`,
      long.map(({ path, lines }) => `${path}: ${lines.length}`),
    ),
  );
  faults.push(
    ...floors.homeless.map((path) => `${path}: in no room of ${ROOMS}`),
    ...floors.empty.map((room) => `${ROOMS}: ${folder} has no ${room}`),
  );
}
const { path: optionsFile } = declaring('interface ServerOptions');
const members = membersOf(optionsFile, 'ServerOptions', 'packages/server/tsconfig.json');
figures.push(
  list(
    'members of ServerOptions',
    members.filter((member) => !OUTSIDE_THE_COUNT.has(member)),
  ),
);

if (args[0] === '--list') {
  const wanted = args.slice(1).join(' ');
  for (const { name, items = [] } of figures) {
    if (name.includes(wanted)) console.log([`${name}:`, ...items].join('\n  '));
  }
} else {
  for (const { name, count } of figures) {
    const ceiling = budget[name];
    const verdict =
      ceiling === undefined
        ? 'no ceiling'
        : count > ceiling
          ? 'OVER'
          : count < ceiling
            ? 'may be lowered'
            : '';
    console.log(`${name.padEnd(36)}${String(count).padStart(7)} of ${ceiling ?? '-'}  ${verdict}`.trimEnd());
    if (ceiling === undefined) faults.push(`${BUDGET}: no ceiling for "${name}"`);
    else if (count > ceiling) faults.push(`${name}: ${count}, at most ${ceiling} (--list ${name})`);
  }
}
const linter = read<{ overrides: readonly Override[] }>(LINTER);
const folders = Object.keys(houses);
const overrides = [
  ...linter.overrides.filter((override) => !isOfFloors(override, folders)),
  ...folders.flatMap((folder) => overridesOf(folder, houses[folder] as Rooms)),
];
if (args[0] === '--write') {
  // A ceiling is never raised here: that is written by hand, and a reviewer sees it.
  const lowered = figures.map(({ name, count }) => [name, Math.min(count, budget[name] ?? count)]);
  write(BUDGET, Object.fromEntries(lowered));
  write(LINTER, { ...linter, overrides });
  execFileSync('npx', ['biome', 'format', '--write', BUDGET, LINTER], { stdio: 'ignore' });
} else {
  for (const name of Object.keys(budget))
    if (!figures.some((figure) => figure.name === name)) faults.push(`${BUDGET}: "${name}" is no figure`);
  if (!isDeepStrictEqual(overrides, linter.overrides))
    faults.push(`${LINTER}: its rules are not those of ${ROOMS}; npm run house -- --write writes them`);
}
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exitCode = 1;

function sourcesOf(folder: string): readonly Source[] {
  return all.get(folder) ?? [];
}

/** The source of the server that exports the declaration, which may move. */
function declaring(declaration: string): Source {
  const pattern = new RegExp(`^export ${declaration}\\b`);
  const found = sourcesOf('packages/server/src').find(({ lines }) =>
    lines.some((line) => pattern.test(line)),
  );
  if (found === undefined) throw new Error(`no source of the server exports ${declaration}`);
  return found;
}

function list(name: string, items: readonly string[]): Figure {
  return { name, count: items.length, items };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function read<T>(path: string): T {
  return JSON.parse(readFileSync(path, 'utf8')) as T;
}

function write(path: string, value: unknown): void {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);
}
