import { aliasesOf } from './arrows.js';
import type { Rooms } from './rooms.js';

/**
 * The rules of the linter that follow from the floors: for each room, which imports point up. So an editor shows what
 * `npm run house` counts. Entries with the name `index.ts` are left to that count, as folders have such files too.
 */

interface Pattern {
  readonly group: readonly string[];
  readonly message: string;
}

/** An entry of `overrides` in `biome.json`. */
export interface Override {
  readonly includes?: readonly string[];
  readonly linter?: {
    readonly rules?: {
      readonly style?: {
        readonly noRestrictedImports?: {
          readonly level: 'error';
          readonly options: { readonly patterns: readonly Pattern[] };
        };
      };
    };
  };
}

/** Rules for each room of a package beside the floors. */
const EVERYWHERE: Readonly<Record<string, readonly Pattern[]>> = {
  'packages/server/src': [
    { group: ['@parlance/client', '@parlance/*/src/**'], message: 'The two ends never import each other.' },
    {
      group: ['ws'],
      message: 'Only transport/websocket/ws.ts knows the WebSocket library.',
    },
  ],
  'packages/protocol/src': [
    { group: ['@parlance/*', 'ws'], message: 'The protocol depends on neither end.' },
  ],
  'packages/client/src': [
    {
      group: ['@parlance/server', '@parlance/*/src/**', 'ws'],
      message: 'The client knows neither the server nor a WebSocket library.',
    },
  ],
  'packages/cli/src': [
    {
      group: ['@parlance/*/src/**', '**/server/src/**', '**/client/src/**', '**/protocol/src/**'],
      message: 'The command line stands on what other packages export.',
    },
  ],
};

/** The file that knows the WebSocket library, the test kit, which has both ends, and tests. */
const EXCEPT: Readonly<Record<string, readonly string[]>> = {
  'packages/cli/src': ['!packages/cli/src/**/*.test.ts'],
  'packages/server/src': ['transport/websocket/ws.ts', 'kit/**', '**/*.test.ts', '**/testing/**'].map(
    (name) => `!packages/server/src/${name}`,
  ),
};

/** Lower floors from which single rooms may not import. */
const BELOW: Readonly<Record<string, readonly Pattern[]>> = {
  'packages/protocol/src/link': [
    {
      group: ['auto', 'avp', 'm2m', 'text', 'vocabulary']
        .map((folder) => `**/codec/${folder}/*`)
        .concat('**/tokenizer/*'),
      message: 'The link moves encoded bodies; it knows neither how they are encoded nor tokens.',
    },
  ],
};

/** The overrides of a package: what holds everywhere in it, and then each room with that and its floor. */
export function overridesOf(folder: string, rooms: Rooms): readonly Override[] {
  const everywhere = EVERYWHERE[folder] ?? [];
  const except = EXCEPT[folder] ?? [];
  const whole = everywhere.length > 0 ? [override([`${folder}/**`, ...except], everywhere)] : [];
  return [...whole, ...Object.keys(rooms).flatMap((room) => ofRoom(room, folder, rooms))];
}

function ofRoom(room: string, folder: string, rooms: Rooms): readonly Override[] {
  const floor = rooms[room] as number;
  const place = `${folder}/${room}`;
  const aliases = aliasesOf(folder);
  const group = Object.keys(rooms)
    .filter((other) => other !== room && (rooms[other] as number) >= floor && other !== 'index.ts')
    .flatMap((other) => [
      other.endsWith('.ts') ? `../${other.slice(0, -3)}.js` : `**/${other}/**`,
      ...aliases.filter(({ path }) => path.startsWith(`${folder}/${other}/`)).map(({ name }) => name),
    ]);
  const upward = {
    group: [...new Set(group)],
    message: `Arrows point down: ${room} stands on floor ${floor}.`,
  };
  const own = [...(group.length > 0 ? [upward] : []), ...(BELOW[place] ?? [])];
  if (own.length === 0) return [];
  const except = EXCEPT[folder] ?? [];
  const everywhere = except.includes(`!${place}/**`) ? [] : (EVERYWHERE[folder] ?? []);
  return [
    override(
      [
        room.endsWith('.ts') ? place : `${place}/**`,
        ...except.filter((name) => name.startsWith(`!${place}/`) && !name.endsWith('/**')),
        '!**/*.test.ts',
        '!**/testing/**',
      ],
      [...everywhere, ...own],
    ),
  ];
}

function override(includes: readonly string[], patterns: readonly Pattern[]): Override {
  return {
    includes,
    linter: { rules: { style: { noRestrictedImports: { level: 'error', options: { patterns } } } } },
  };
}

/** Whether an entry of `biome.json` is one that {@link overridesOf} makes, today or before. @param folders of all packages. */
export function isOfFloors({ includes = [], linter }: Override, folders: readonly string[]): boolean {
  const isOfPackage = folders.some((folder) => includes[0]?.startsWith(`${folder}/`));
  return isOfPackage && linter?.rules?.style?.noRestrictedImports !== undefined;
}
