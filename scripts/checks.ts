import { pythonMissing } from '../conformance/src/kit/python.js';
import { redisMissing } from '../packages/server/src/backplane/testing/redis-server.js';
import { chromiumMissing } from './chromium.js';
import { packOnce } from './pack.js';
import { run, type Tally, vitest } from './run.js';

/** Every check of the project by name, in the order in which CI runs them. */

export interface Check {
  readonly name: string;
  /** Part of `npm test`; the others are `npm run check`. */
  readonly isTest: boolean;
  /** Checks with the same word, one after the other in the list, run at once. @default runs alone */
  readonly beside?: string;
  run(): Promise<Tally>;
}

const node = (...args: string[]) =>
  run('node', ['--import', 'tsx', '--conditions=@parlance/source', ...args]);
const command = (name: string, ...args: string[]): Check => ({
  name,
  isTest: false,
  run: () => run('npx', ['--no-install', ...args]),
});

/** Skips a check without Chromium, except in CI. @param what the subject of a sentence. */
async function withChromium(what: string, check: () => Promise<Tally>): Promise<Tally> {
  const why = chromiumMissing();
  if (why === undefined) return await check();
  if (process.env['CI'] === 'true') {
    console.error(`skipping ${what} is not allowed in CI: ${why}`);
    return { passed: 0, failed: 1, skipped: 0 };
  }
  return { passed: 0, failed: 0, skipped: 1, notes: [`skipped ${what}: ${why}`] };
}

/** Skips a check without Redis, except in CI. */
async function withRedis(check: () => Promise<Tally>): Promise<Tally> {
  if (redisMissing === undefined) return await check();
  return { passed: 0, failed: 0, skipped: 1, notes: [redisMissing] };
}

/** As tests with real processes: in CI what fails is run once more, and the summary lists it as `RETRIED`. */
async function twiceInCi(what: string, check: () => Promise<Tally>): Promise<Tally> {
  const first = await check();
  if (first.failed === 0 || process.env['CI'] !== 'true') return first;
  const second = await check();
  if (second.failed > 0) return second;
  const notes = (first.failures ?? []).map((failure) => `RETRIED ${what}\n${failure}`);
  return { ...second, notes: [...(second.notes ?? []), ...notes] };
}

async function chaosOfCluster(...options: string[]): Promise<Tally> {
  const seconds = process.env['CHAOS_SECONDS'] ?? '30';
  return await withRedis(() => node('e2e/src/chaos/main.ts', '--cluster', '--seconds', seconds, ...options));
}

export const CHECKS: readonly Check[] = [
  command('format and lint', 'biome', 'check', '--error-on-warnings', '.'),
  {
    name: 'types',
    isTest: false,
    async run() {
      const built = await run('npx', ['--no-install', 'tsc', '-b']);
      return built.failed > 0
        ? built
        : await run('npx', ['--no-install', 'tsc', '-p', 'tsconfig.checks.json']);
    },
  },
  { name: 'public types', isTest: false, run: () => node('scripts/check-api.ts') },
  {
    name: 'unit and end to end',
    isTest: true,
    async run() {
      const tally = await vitest('unit', 'e2e');
      return pythonMissing === undefined
        ? tally
        : { ...tally, notes: [...(tally.notes ?? []), pythonMissing] };
    },
  },
  {
    name: 'conformance',
    isTest: true,
    run: () => node('conformance/src/main.ts', '--vectors', 'conformance/vectors'),
  },
  {
    name: 'browser',
    isTest: true,
    run: () => withChromium('browser tests', () => vitest('browser')),
  },
  command('unused code', 'knip'),
  { name: 'build', isTest: false, run: () => run('npm', ['run', '--silent', 'build']) },
  {
    name: 'package exports',
    isTest: false,
    beside: 'packed',
    run: () => node('scripts/check-exports.ts', packOnce()),
  },
  {
    name: 'types for users',
    isTest: false,
    beside: 'packed',
    run: () => node('scripts/check-user-types.ts', packOnce()),
  },
  command('sizes', 'size-limit'),
  {
    name: 'page budget',
    isTest: false,
    run: () => withChromium('the page budget', () => node('scripts/check-page.ts')),
  },
  { name: 'house', isTest: false, run: () => node('scripts/check-house.ts') },
  { name: 'plain words', isTest: false, run: () => node('scripts/check-words.ts') },
  { name: 'docs in sync', isTest: false, run: () => node('scripts/generate-docs.ts', '--check') },
  { name: 'demo', isTest: false, run: () => run('npm', ['run', '--silent', 'demo', '--', '--once']) },
  {
    name: 'demo of a cluster',
    isTest: false,
    run: () => withRedis(() => run('npm', ['run', '--silent', 'demo', '--', '--cluster'])),
  },
  { name: 'agents', isTest: false, run: () => run('npm', ['run', '--silent', 'agents']) },
  {
    name: 'tensors between processes',
    isTest: false,
    run: () => run('npm', ['run', '--silent', 'tensors', '--', '--tokens', '64']),
  },
  {
    name: 'README as pasted',
    isTest: false,
    beside: 'pasted',
    run: () => node('scripts/try-packed.ts', packOnce()),
  },
  {
    name: 'guide to several nodes as pasted',
    isTest: false,
    beside: 'pasted',
    run: () => node('scripts/try-cluster.ts', packOnce()),
  },
  {
    name: 'bundlers, short',
    isTest: false,
    run: () => node('e2e/src/bundlers/main.ts', '--short', packOnce()),
  },
  {
    name: 'chaos, 30 s',
    isTest: false,
    run: () => node('e2e/src/chaos/main.ts', '--seconds', process.env['CHAOS_SECONDS'] ?? '30'),
  },
  {
    name: 'fuzz, 30 s',
    isTest: false,
    // The same inputs every time: this fails for a change and not by chance. `npm run fuzz` takes others.
    run: () =>
      node(
        'conformance/src/fuzz/main.ts',
        '--seconds',
        process.env['FUZZ_SECONDS'] ?? '30',
        '--seed',
        process.env['FUZZ_SEED'] ?? '1',
      ),
  },
  {
    name: 'chaos of a cluster, 30 s',
    isTest: false,
    // A fifth of the sessions of `npm run chaos -- --cluster`, for machines with two cores that do other things as well.
    run: () => chaosOfCluster('--streams', '40', '--idle', '200'),
  },
  {
    name: 'chaos of durable sessions, 30 s',
    isTest: false,
    run: () => chaosOfCluster('--durable', '--sessions', '15'),
  },
  {
    name: 'chaos of crossings, 2 × 15 s',
    isTest: false,
    // The same histories every time. `npm run chaos -- --crossings` takes others.
    run: () =>
      withRedis(() =>
        twiceInCi('chaos of crossings', () =>
          node('e2e/src/chaos/main.ts', '--crossings', '--seconds', '15', '--seed', '1', '--seeds', '2'),
        ),
      ),
  },
  {
    name: 'attack, short',
    isTest: false,
    run: () => node('e2e/src/attack/main.ts', '--short'),
  },
];
