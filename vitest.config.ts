import { availableParallelism } from 'node:os';
import { defineConfig, type Plugin } from 'vitest/config';

// Tests run against the sources: the condition "@parlance/source" of every package's exports and imports.
const resolve = { conditions: ['@parlance/source', 'module', 'browser', 'development|production'] };
const ssr = { resolve: { conditions: ['@parlance/source', 'module', 'node', 'development|production'] } };

/** With `CI` set, properties are tested with the same values in each run, so that a failure means that a change broke it. */
const fixedSeeds: Plugin = {
  name: 'fixed-seeds',
  enforce: 'pre',
  transform: (code, id) =>
    process.env.CI !== undefined && id.endsWith('.test.ts') && code.includes("import fc from 'fast-check'")
      ? `${code}\nfc.configureGlobal({ seed: 1 });`
      : undefined,
};

/** Against hanging only: how long a test takes says nothing on a machine with other work. */
const patience = { testTimeout: 60_000, expect: { poll: { timeout: 60_000 } }, hookTimeout: 60_000 };

/**
 * Tests with real sockets, processes and browsers get a second try in CI, since the order of events is not theirs to
 * choose. The summary names each test that needed it.
 */
const retry = process.env.CI === undefined ? 0 : 1;

export default defineConfig({
  test: {
    // Tests of processes and browsers mostly wait, so that three of them fit on a machine with two cores.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    projects: [
      {
        plugins: [fixedSeeds],
        resolve,
        ssr,
        test: {
          name: 'unit',
          environment: 'node',
          include: ['packages/*/src/**/*.test.ts', 'conformance/src/**/*.test.ts'],
          exclude: ['**/*.browser.test.ts', '**/node_modules/**'],
          ...patience,
        },
      },
      {
        plugins: [fixedSeeds],
        resolve,
        ssr,
        test: {
          name: 'e2e',
          environment: 'node',
          include: ['e2e/src/**/*.test.ts'],
          exclude: ['**/*.browser.test.ts', '**/node_modules/**'],
          retry,
          ...patience,
        },
      },
      {
        plugins: [fixedSeeds],
        resolve,
        ssr,
        test: {
          name: 'browser',
          // The tests drive a browser from Node.
          environment: 'node',
          include: ['**/*.browser.test.ts'],
          exclude: ['**/node_modules/**', '**/dist/**'],
          retry,
          ...patience,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
