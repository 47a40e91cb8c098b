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

export default defineConfig({
  test: {
    projects: [
      {
        plugins: [fixedSeeds],
        resolve,
        ssr,
        test: {
          name: 'unit',
          environment: 'node',
          include: ['packages/*/src/**/*.test.ts', 'conformance/src/**/*.test.ts', 'e2e/src/**/*.test.ts'],
          exclude: ['**/*.browser.test.ts', '**/node_modules/**'],
          // Against hanging only: how long a test takes says nothing on a machine with other work.
          testTimeout: 60_000,
          expect: { poll: { timeout: 60_000 } },
          hookTimeout: 60_000,
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
          testTimeout: 60_000,
          expect: { poll: { timeout: 60_000 } },
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
