import { expect, it } from 'vitest';
import { redisMissing } from './testing/redis-server.js';
import { storm } from './testing/redis-storm.js';

/** The short form of `npm run chaos -- --redis`. */

const ENGINES = 20;

it.skipIf(redisMissing !== undefined)(
  redisMissing ?? 'engines all come back after a storm, each with one connection',
  async () => {
    const report = await storm({ seed: 1, seconds: 12, engines: ENGINES, patienceMs: 30_000 });
    expect(report).toMatchObject({ answered: ENGINES, open: ENGINES });
    expect(report.opened).toBeGreaterThan(2 * ENGINES);
  },
);
