import { afterAll, describe, it } from 'vitest';
import { engineTests } from './suite/tests.js';
import { engines } from './testing/engines.js';

/** Runs the suite of all engines in memory, in Redis, and in all others that are listed. */

/** The tests of an engine wait for most of their time, and those of one engine must not run beside each other. */
for (const [name, { start, missing }] of Object.entries(engines)) {
  const suite = describe.skipIf(missing !== undefined);
  suite(missing === undefined ? name : `${name} (${missing})`, { concurrent: true }, () =>
    engineTests({ test: it.sequential, after: afterAll, start, patienceMs: 30_000 }),
  );
}
