import { accountTests } from './accounts.js';
import { faultTests } from './faults.js';
import { leaseTests } from './leases.js';
import { logBoundTests } from './log-bounds.js';
import { logReaderTests } from './log-readers.js';
import { logWriterTests } from './log-writers.js';
import { placeTests } from './places.js';
import { recordTests } from './records.js';
import { repeatTests } from './repeat.js';
import { storeTests } from './store.js';
import { tableTests } from './tables.js';
import { Skipped, type StartedEngine, type Tests, worldOf } from './world.js';

/** `@parlance/server/engine-tests`: what every engine has to do, as tests without a framework. See docs/ENGINES.md. */

export type { EngineFaults, Heal, StartedEngine } from './world.js';

/** The argument that a framework gives to a test, if it can skip one: `node:test` and Vitest do. */
export interface MaySkip {
  skip?(why?: string): unknown;
}

export interface EngineTestsOptions {
  /**
   * Defines a test: `test` of `node:test`, of Vitest or of Jest. Tests run one after the other. Each takes 5 s at most if the
   * engine answers in time, and otherwise up to {@link patienceMs} more for each thing that it waits for.
   */
  test(name: string, run: (context?: MaySkip) => Promise<void>): unknown;
  /** Defines what runs after the last test: `after` of `node:test`, `afterAll` of Vitest and Jest. */
  after(run: () => Promise<void>): unknown;
  /** Starts the engine before the first test. */
  start(): PromiseLike<StartedEngine>;
  /**
   * How long a test waits for what has to happen, and repeats calls that were not answered in time, in milliseconds. Tests of
   * faults repeat none.
   *
   * @default 10,000
   */
  readonly patienceMs?: number | undefined;
}

const GROUPS: Readonly<Record<string, Tests>> = {
  leases: leaseTests,
  tables: tableTests,
  places: placeTests,
  records: recordTests,
  accounts: accountTests,
  'logs, writers': logWriterTests,
  'logs, readers': logReaderTests,
  'logs, bounds': logBoundTests,
  store: storeTests,
  repeatable: repeatTests,
  faults: faultTests,
};

/**
 * Defines the tests of an engine. One that needs a fault that the caller does not provide, or logs or a store that the engine does
 * not have, is skipped with a reason, if the framework can do that; otherwise it passes.
 */
export function engineTests({ test, after, start, patienceMs = 10_000 }: EngineTestsOptions): void {
  let starting: Promise<StartedEngine> | undefined;
  const started = (): Promise<StartedEngine> => {
    starting ??= Promise.resolve(start());
    return starting;
  };
  for (const [group, tests] of Object.entries(GROUPS)) {
    for (const [name, run] of Object.entries(tests)) {
      test(`${group}: ${name}`, async (context) => {
        // An engine may hold no process back, and `node:test` ends with what does.
        const held = setInterval(() => {}, 1_000);
        try {
          await using world = worldOf(await started(), patienceMs);
          await run(world);
        } catch (error) {
          if (!(error instanceof Skipped)) throw error;
          context?.skip?.(error.message);
        } finally {
          clearInterval(held);
        }
      });
    }
  }
  after(async () => {
    const engine = await starting?.catch(() => undefined);
    await engine?.close();
  });
}
