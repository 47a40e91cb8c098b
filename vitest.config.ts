import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, type Plugin } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { isFull, MAX_SHORT_RUNS } from './scripts/extent.js';

// Tests run against the sources: the condition "@parlance/source" of every package's exports and imports.
const resolve = { conditions: ['@parlance/source', 'module', 'browser', 'development|production'] };
const ssr = { resolve: { conditions: ['@parlance/source', 'module', 'node', 'development|production'] } };

/**
 * With `CI` set, properties and histories are tested with the same values in each run, so that a failure means that a change
 * broke something. The nightly script takes new ones.
 */
const isFixed = process.env.CI !== undefined && !isFull;

const properties: Plugin = {
  name: 'properties',
  enforce: 'pre',
  transform(code, id) {
    if (!id.endsWith('.test.ts') || !code.includes("import fc from 'fast-check'")) return undefined;
    const short = code.replaceAll(/(?<=\bnumRuns: )[\d_]+/g, (runs) =>
      String(Math.min(Number(runs.replaceAll('_', '')), MAX_SHORT_RUNS)),
    );
    return (isFull ? code : short) + (isFixed ? '\nfc.configureGlobal({ seed: 1 });' : '');
  },
};

/** Histories of tests that read the seed of the first one, or their number, from the environment. */
const env = (() => {
  const seed = isFixed ? '1' : `${Date.now() % 2 ** 31}`;
  const names = [
    'CHAOS_SEED',
    'MOVE_SEED',
    'TAKE_OVER_SEED',
    ...(isFull ? ['CONTEXT_SEED', 'RELAY_SEED'] : []),
  ];
  const short = { CHAOS: '400', CONTEXT: '10', RELAY: '4', TAKE_OVER: '15' };
  const histories = Object.entries(isFull ? {} : short).map(([name, count]) => {
    const variable = `${name}_HISTORIES`;
    return [variable, process.env[variable] ?? count];
  });
  return {
    ...Object.fromEntries(histories),
    ...Object.fromEntries(names.map((name) => [name, process.env[name] ?? seed])),
  };
})();

/**
 * Against hanging only: how long a test takes says nothing on a machine with other work. A poll ends before its test does, and
 * says what it saw last.
 */
const patience = { testTimeout: 300_000, expect: { poll: { timeout: 60_000 } }, hookTimeout: 300_000 };

/**
 * What a test file says that touches more than its own modules: it needs a process of its own. It may read the environment, spy on
 * what it restores, and have timers of its own for as long as a test lasts.
 */
const TOUCHES_MORE = new RegExp(
  [
    String.raw`\bvi\.(?!fn\b|waitFor\b|spyOn\b|restoreAllMocks\b|use(?:Fake|Real)Timers\b|advanceTimers)`,
    String.raw`\bglobalThis\b|\bprocess\.(?!env\[|versions\b)|\bloadOn\b|web-platform|memoryUsage|\bgc\b`,
    String.raw`\b(?:redis|postgres)\w*Missing\b|start(?:Redis|Postgres)|(?:redis|postgres)-server|/engines\.js`,
  ].join('|'),
);

/** Tests of what modules remember, such as which codecs were loaded: they need modules that were not used. */
const NEEDS_NEW_MODULES =
  /endpoint\/parts\.test|inspect\/frame\.test|context\/choice\.test|text\/token-native\.test|platform\/zstd\//;

/** The tests in a folder. What a build or another test writes and removes meanwhile is not looked at. */
const testsIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return /^(node_modules|dist|templates)$/.test(entry.name) ? [] : testsIn(path);
    return /(?<!\.browser)\.test\.ts$/.test(entry.name) ? [path] : [];
  });

const files = ['packages', 'conformance', 'scripts', 'site/src'].flatMap(testsIn);
const pure = files.filter(
  (file) => !NEEDS_NEW_MODULES.test(file) && !TOUCHES_MORE.test(readFileSync(file, 'utf8')),
);

/** What a test end to end says that must not be seen by another one, or must not see what others have left. */
const NEEDS_OWN_PROCESS =
  /\bvi\.(?!fn\b|waitFor\b)|\bglobalThis(?:\.\w+)? = |\bprocess\.(?:on|off|listeners|rawListeners|removeAllListeners|memoryUsage)\b|\bgc\b|memory\.test|savings\.test/;

const endToEnd = testsIn('e2e/src');
const together = endToEnd.filter((file) => !NEEDS_OWN_PROCESS.test(file + readFileSync(file, 'utf8')));

/** Projects of other groups run one after the other, so CI runs those that wait in a process beside. */
const computing = { maxWorkers: 2, sequence: { groupOrder: 2 } };
const waiting = { maxWorkers: 5, sequence: { groupOrder: 3 } };

/** Files that take a minute or more, in the order in which they begin: the last one must not be left alone. */
const LONGEST = [
  'survival',
  'failover',
  'chat-break',
  'replies-nodes',
  'move-kills',
  'ai/chat',
  'chat.browser',
  'engine',
  'react.browser',
  'proxies',
  'replies-bad-days',
  'cut-off',
  'reloads',
  'kept-again',
  'shared.browser',
  'conformance',
  'repeat',
  'p10-savings',
].map((name) => `/${name}.`);

class LongestFirst extends BaseSequencer {
  override async sort(specs: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification) => {
      const rank = LONGEST.findIndex((name) => moduleId.includes(name));
      return rank < 0 ? LONGEST.length : rank;
    };
    // Files that share modules run in the same order everywhere.
    const [shared, others] = [true, false].map((isShared) =>
      specs.filter(({ project }) => (project.name === 'unit') === isShared),
    ) as [TestSpecification[], TestSpecification[]];
    return [
      ...shared.sort((a, b) => (a.moduleId < b.moduleId ? -1 : 1)),
      ...(await super.sort(others)).sort((a, b) => rankOf(a) - rankOf(b)),
    ];
  }
}

const endToEndProject = (name: string, include: string[], isolate: boolean) => ({
  plugins: [properties],
  resolve,
  ssr,
  test: {
    name,
    environment: 'node',
    include,
    globalSetup: 'e2e/src/kit/bundle-programs.ts',
    isolate,
    env,
    ...waiting,
    ...patience,
  },
});

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        plugins: [properties],
        resolve,
        ssr,
        test: {
          // They share one set of modules, which takes longer to load than most of these tests to run. With one worker, which
          // file comes after which does not depend on the time that others take.
          name: 'unit',
          environment: 'node',
          include: pure,
          isolate: false,
          env,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
          ...patience,
        },
      },
      {
        plugins: [properties],
        resolve,
        ssr,
        test: {
          name: 'unit-alone',
          environment: 'node',
          include: files.filter((file) => !pure.includes(file)),
          env,
          ...computing,
          ...patience,
        },
      },
      // They share modules, which take longer to load than most of these tests compute.
      endToEndProject('e2e', together, false),
      endToEndProject(
        'e2e-alone',
        endToEnd.filter((file) => !together.includes(file)),
        true,
      ),
      {
        plugins: [properties],
        resolve,
        ssr,
        test: {
          name: 'browser',
          // The tests drive a browser from Node, and share what takes longer to load there than to run.
          environment: 'node',
          isolate: false,
          include: ['**/*.browser.test.ts'],
          globalSetup: ['e2e/src/kit/bundle-programs.ts', 'e2e/src/kit/build-pages.ts'],
          exclude: ['**/node_modules/**', '**/dist/**'],
          env,
          ...waiting,
          ...patience,
          // Each look at a page costs two processes some milliseconds.
          expect: { poll: { ...patience.expect.poll, interval: 100 } },
        },
      },
    ],
  },
});
