import { defineConfig } from 'vitest/config';

// Tests run against the sources: the condition "@parlance/source" of every package's exports and imports.
const resolve = { conditions: ['@parlance/source', 'module', 'browser', 'development|production'] };
const ssr = { resolve: { conditions: ['@parlance/source', 'module', 'node', 'development|production'] } };

export default defineConfig({
  test: {
    projects: [
      {
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
