import { pythonMissing } from '../conformance/src/kit/python.js';
import { ENGINE_KINDS, type EngineOfHistory } from '../e2e/src/chaos/interactions/engines.js';
import { redisMissing } from '../packages/server/src/engine/testing/redis-server.js';
import { chromiumMissing } from './chromium.js';
import { inTurn, isFull, MAX_SHORT_RUNS } from './extent.js';
import { otherNodeMissing, underNode } from './other-node.js';
import { packOnce } from './pack.js';
import { m2mReference, pythonChecks, pythonProgram, pythonTests } from './python.js';
import { add, run, type Tally, vitest } from './run.js';

/** Every check of the project by name, in the order in which its lane runs them. */

/** Two checks run at once: one that mostly waits for clocks, sockets and processes, and one that computes, or two such in the end. */
export const LANES = ['waiting', 'computing'] as const;

export interface Check {
  readonly name: string;
  /** `npm test`, `npm run check` or `npm run nightly`. */
  readonly part: 'test' | 'check' | 'nightly';
  readonly lane: (typeof LANES)[number];
  /** The check of `npm run nightly` that does in full what this one does in short. @default this one leaves nothing out */
  readonly inFull?: string;
  /** A check that has to be over, if it runs at all. @default none */
  readonly after?: string;
  run(): Promise<Tally>;
}

const CHAOS_SECONDS = process.env['CHAOS_SECONDS'] ?? '20';
/** On each of two platforms. */
const FUZZ_SECONDS = process.env['FUZZ_SECONDS'] ?? '3';

const LEFT_OUT =
  `left out: cases with one connection on three nodes (e2e/src/kit/one-connection.json), values of properties beyond ` +
  `${MAX_SHORT_RUNS}, and most histories and random texts; PARLANCE_TESTS=full npm test leaves nothing out, and npm run nightly does so under each Node`;

const node = (...args: string[]) =>
  run('node', ['--import', 'tsx', '--conditions=@parlance/source', ...args]);
const command = (name: string, ...args: string[]): Check => ({
  name,
  part: 'check',
  lane: 'computing',
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

const END_TO_END = ['e2e', 'e2e-alone'];

/** The tests that wait for sockets, processes and browsers. */
async function waitingTests(): Promise<Tally> {
  const missing = chromiumMissing();
  if (missing !== undefined && process.env['CI'] !== 'true') {
    const tally = await vitest({ projects: END_TO_END });
    return add(tally, { passed: 0, failed: 0, skipped: 1, notes: [`skipped browser tests: ${missing}`] });
  }
  return await vitest({ projects: [...END_TO_END, 'browser'] });
}

/** Says what a run leaves out, and how to get it. */
function withNotes(tally: Tally): Tally {
  return {
    ...tally,
    notes: [
      ...(tally.notes ?? []),
      ...(pythonMissing === undefined ? [] : [pythonMissing]),
      ...(isFull ? [] : [LEFT_OUT]),
    ],
  };
}

/** Servers read frames with the library `ws`, as they do by option. */
const OVER_WS = { PARLANCE_WIRE: 'ws' };

/** The same history every time. `npm run chaos -- --engine ENGINE` takes others. */
function chaosOfEngine(engine: EngineOfHistory): Check {
  const name = `chaos of interactions with ${engine}`;
  const args = ['--engine', engine, '--seconds', CHAOS_SECONDS, '--seed', '1'];
  return {
    name: `${name}, ${CHAOS_SECONDS} s`,
    part: 'check',
    lane: 'waiting',
    inFull: name,
    async run() {
      const { missing } = ENGINE_KINDS[engine];
      if (missing !== undefined) return { passed: 0, failed: 0, skipped: 1, notes: [missing] };
      return await node('e2e/src/chaos/main.ts', ...args);
    },
  };
}

/** Half of the users and agents have clients in Python. */
async function chaosWithPython(seconds: number, ...options: string[]): Promise<Tally> {
  const { missing } = pythonProgram();
  if (missing !== undefined) return { passed: 0, failed: 0, skipped: 1, notes: [missing] };
  const args = ['e2e/src/chaos/main.ts', '--python', '--seconds', `${seconds}`, ...options];
  return await withRedis(() => node(...args));
}

/** What CI runs. */
export const CHECKS: readonly Check[] = [
  // --- npm test
  {
    name: 'end to end and browser',
    part: 'test',
    lane: 'waiting',
    inFull: 'all tests under this Node',
    run: async () => withNotes(await waitingTests()),
  },
  {
    name: 'unit',
    part: 'test',
    lane: 'computing',
    inFull: 'all tests under this Node',
    run: () => vitest({ projects: ['unit', 'unit-alone'] }),
  },
  {
    name: 'conformance',
    part: 'test',
    lane: 'computing',
    run: () => node('conformance/src/main.ts', '--vectors', 'conformance/vectors'),
  },

  { name: 'client in Python', part: 'test', lane: 'waiting', run: pythonTests },

  // --- npm run check, computing
  { name: 'build', part: 'check', lane: 'computing', run: () => run('npm', ['run', '--silent', 'build']) },
  {
    name: 'types',
    part: 'check',
    lane: 'computing',
    // The build has checked the packages, and tsc continues from its .tsbuildinfo.
    async run() {
      const built = await run('npx', ['--no-install', 'tsc', '-b']);
      return built.failed > 0
        ? built
        : await run('npx', ['--no-install', 'tsc', '-p', 'tsconfig.checks.json']);
    },
  },
  command('format and lint', 'biome', 'check', '--error-on-warnings', '.'),
  { name: 'format, lint and types of Python', part: 'check', lane: 'computing', run: pythonChecks },
  { name: 'public types', part: 'check', lane: 'computing', run: () => node('scripts/check-api.ts') },
  command('unused code', 'knip'),
  { name: 'house', part: 'check', lane: 'computing', run: () => node('scripts/check-house.ts') },
  { name: 'plain words', part: 'check', lane: 'computing', run: () => node('scripts/check-words.ts') },
  { name: 'length of pages', part: 'check', lane: 'computing', run: () => node('scripts/check-pages.ts') },
  {
    name: 'docs in sync',
    part: 'check',
    lane: 'computing',
    run: () => node('scripts/generate-docs.ts', '--check'),
  },
  command('sizes', 'size-limit'),
  {
    name: 'package exports',
    part: 'check',
    lane: 'computing',
    run: async () => await node('scripts/check-exports.ts', await packOnce()),
  },
  {
    name: 'site',
    part: 'check',
    lane: 'computing',
    run: async () => {
      const built = await node('--max-semi-space-size=64', 'site/src/build.ts');
      if (built.failed > 0) return built;
      return await withChromium('the site', async () => add(built, await node('site/src/check.ts')));
    },
  },
  {
    name: 'types for users',
    part: 'check',
    lane: 'computing',
    inFull: 'types for users',
    run: async () => await node('scripts/check-user-types.ts', await packOnce()),
  },
  {
    name: 'README as pasted',
    part: 'check',
    lane: 'computing',
    run: async () => await node('scripts/try-packed.ts', await packOnce()),
  },
  {
    name: 'guides as pasted',
    part: 'check',
    lane: 'computing',
    run: async () =>
      await withChromium('guides', async () => await node('e2e/src/guides/main.ts', await packOnce())),
  },
  {
    name: 'guide to several nodes as pasted',
    part: 'check',
    lane: 'computing',
    run: async () => await node('scripts/try-cluster.ts', await packOnce()),
  },
  {
    name: 'projects from templates',
    part: 'check',
    lane: 'computing',
    run: async () => await node('scripts/try-created.ts', await packOnce()),
  },
  {
    name: 'bundlers, short',
    part: 'check',
    lane: 'computing',
    inFull: 'bundlers',
    run: async () => await node('e2e/src/bundlers/main.ts', '--short', await packOnce()),
  },
  {
    name: `fuzz, ${FUZZ_SECONDS} s`,
    part: 'check',
    lane: 'computing',
    inFull: 'fuzz',
    // The same inputs every time: this fails for a change and not by chance. `npm run fuzz` takes others.
    run: () =>
      node(
        'conformance/src/fuzz/main.ts',
        '--seconds',
        FUZZ_SECONDS,
        '--seed',
        process.env['FUZZ_SEED'] ?? '1',
      ),
  },

  // --- npm run check, waiting
  {
    name: `chaos, ${CHAOS_SECONDS} s`,
    part: 'check',
    lane: 'waiting',
    inFull: 'chaos',
    run: () => node('e2e/src/chaos/main.ts', '--seconds', CHAOS_SECONDS),
  },
  {
    name: 'deploy of a cluster, short',
    part: 'check',
    lane: 'waiting',
    inFull: 'chaos of a cluster',
    // A fifth of the sessions of `npm run chaos -- --cluster`, for machines with two cores that do other things as well.
    run: () =>
      withRedis(() =>
        node('e2e/src/chaos/main.ts', '--cluster', 'deploy', '--streams', '40', '--idle', '200'),
      ),
  },
  ...(['redis', 'sqlite', inTurn(['postgres', 'memory'] as const)] as const).map(chaosOfEngine),
  {
    name: 'chaos with Python, short',
    part: 'check',
    lane: 'waiting',
    inFull: 'chaos of durable sessions with Python',
    run: () => chaosWithPython(10, '--cluster', '--durable', '--sessions', '16', '--seed', '1'),
  },
  {
    name: 'page budget',
    part: 'check',
    lane: 'waiting',
    after: 'build',
    run: () => withChromium('the page budget', () => node('scripts/check-page.ts')),
  },
  {
    name: 'demo',
    part: 'check',
    lane: 'waiting',
    // It builds the pages if they are missing.
    after: 'build',
    run: () => run('npm', ['run', '--silent', 'demo', '--', '--once']),
  },
  {
    name: 'demo of a cluster',
    part: 'check',
    lane: 'waiting',
    after: 'build',
    run: () => withRedis(() => run('npm', ['run', '--silent', 'demo', '--', '--cluster'])),
  },
  { name: 'agents', part: 'check', lane: 'waiting', run: () => run('npm', ['run', '--silent', 'agents']) },
  {
    name: 'tensors between processes',
    part: 'check',
    lane: 'waiting',
    run: () => run('npm', ['run', '--silent', 'tensors', '--', '--tokens', '64']),
  },
  {
    name: 'attack, short',
    part: 'check',
    lane: 'waiting',
    inFull: 'attack',
    run: () => node('e2e/src/attack/main.ts', '--short'),
  },
];

const nightly = (name: string, task: () => Promise<Tally>, lane: Check['lane'] = 'computing'): Check => ({
  name,
  part: 'nightly',
  lane,
  run: task,
});

const NEW_SEEDS = { PARLANCE_TESTS: 'full', CONFORMANCE_ALL: '1' };

/** As `npm test`, with all that it leaves out, and with new seeds. */
const allTests = (env: Readonly<Record<string, string>> = {}) =>
  run('npm', ['test'], { env: { ...NEW_SEEDS, ...env } });

/** With the whole Chromium. */
const inFull = (...args: string[]) =>
  run('node', ['--import', 'tsx', '--conditions=@parlance/source', ...args], { env: NEW_SEEDS });

const chaosFor = (seconds: number, ...options: string[]) =>
  withRedis(() => node('e2e/src/chaos/main.ts', '--seconds', `${seconds}`, ...options));

const overWs = (...args: string[]) =>
  run('node', ['--import', 'tsx', '--conditions=@parlance/source', ...args], { env: OVER_WS });

/** Hours: what CI does in short, in full and with new seeds, and all tests under each version of Node that users have. */
export const NIGHTLY: readonly Check[] = [
  nightly('all tests under this Node', () => allTests()),
  ...([22, 24, 26] as const).map((major) =>
    nightly(`all tests under Node ${major}`, async () =>
      otherNodeMissing === undefined
        ? await allTests(underNode(major))
        : { passed: 0, failed: 0, skipped: 1, notes: [otherNodeMissing] },
    ),
  ),
  nightly('all tests over ws', () => allTests(OVER_WS)),
  nightly('tests of sessions over HTTP', () => node('e2e/src/over-http/main.ts')),
  nightly('random frames beside ws', () =>
    vitest({
      projects: ['unit'],
      files: ['packages/server/src/transport/websocket/frame-reader.test'],
      env: { WIRE_STREAMS: '10000000', WIRE_SEED: `${Date.now() % 2 ** 31}` },
    }),
  ),
  nightly('build', () => run('npm', ['run', '--silent', 'build'])),
  nightly('types for users', async () => inFull('scripts/check-user-types.ts', await packOnce())),
  nightly('bundlers', async () => await inFull('e2e/src/bundlers/main.ts', await packOnce())),
  nightly('comparison', () =>
    withRedis(async () => await node('e2e/src/compare/main.ts', '--check', await packOnce())),
  ),
  nightly('fuzz', () => node('conformance/src/fuzz/main.ts', '--seconds', '600')),
  nightly('histories', () => node('e2e/src/chaos/main.ts', '--histories', '50000')),
  nightly('reloads', () => withChromium('reloads', () => inFull('e2e/src/reloads/main.ts'))),
  nightly('chaos', () => node('e2e/src/chaos/main.ts', '--seconds', '300')),
  nightly('chaos of a cluster', () => chaosFor(300, '--cluster')),
  nightly('chaos of durable sessions', () => chaosFor(300, '--cluster', '--durable')),
  nightly('chaos of durable sessions, with faults planted', () =>
    chaosFor(60, '--cluster', '--durable', '--plants'),
  ),
  ...(Object.keys(ENGINE_KINDS) as EngineOfHistory[]).flatMap((engine) => [
    nightly(`chaos of interactions with ${engine}`, () => chaosFor(60, '--engine', engine, '--seeds', '10')),
    nightly(`chaos of interactions with ${engine}, with faults planted`, () =>
      chaosFor(60, '--engine', engine, '--plants'),
    ),
  ]),
  nightly('chaos of durable sessions with Python', () => chaosWithPython(300, '--cluster', '--durable')),
  nightly('chaos of durable sessions with Python, with faults planted', () =>
    chaosWithPython(60, '--cluster', '--durable', '--plants'),
  ),
  nightly('chaos of durable sessions with Python, over HTTP', () =>
    chaosWithPython(120, '--http', '--cluster', '--durable', '--nodes', '2'),
  ),
  nightly('chaos of interactions with Python', () =>
    chaosWithPython(60, '--engine', 'redis', '--seeds', '10'),
  ),
  nightly('chaos of interactions with Python, with faults planted', () =>
    chaosWithPython(60, '--engine', 'redis', '--plants'),
  ),
  nightly('chaos of interactions with Python, over HTTP', () =>
    chaosWithPython(60, '--http', '--engine', 'redis', '--seeds', '3'),
  ),
  nightly('chaos of connections to Redis', () => chaosFor(60, '--redis')),
  nightly('M2M beside its reference', m2mReference),
  nightly('attack', () => node('e2e/src/attack/main.ts')),
  nightly('chaos over ws', () => overWs('e2e/src/chaos/main.ts', '--seconds', '300')),
  nightly('chaos of a cluster over ws', () =>
    withRedis(() => overWs('e2e/src/chaos/main.ts', '--cluster', '--seconds', '300')),
  ),
  nightly('attack over ws', () => overWs('e2e/src/attack/main.ts')),
];
