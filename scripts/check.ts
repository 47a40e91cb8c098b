import { CHECKS, type Check, LANES, NIGHTLY } from './checks.js';
import { add, holdingOutput, type Tally } from './run.js';

/**
 * `npm test` runs the tests, `npm run check` everything else, and `npm run nightly` in full what these two do in short. Names on the command line select checks:
 * `npm run check -- types sizes`. There are two lanes, of checks that compute and of checks that mostly wait: one check of each
 * runs at a time, and two that compute once none is left that waits. The last lines say how long each took, and count the results.
 */

const [kind = 'check', ...names] = process.argv.slice(2);
const all = [...CHECKS, ...NIGHTLY].filter(({ part }) => part === kind);
const chosen = all.filter((check) => names.length === 0 || names.some((name) => check.name.startsWith(name)));
if (chosen.length === 0) {
  console.error(
    `no check begins with ${names.join(', ')}; there are ${all.map((check) => check.name).join(', ')}`,
  );
  process.exit(1);
}

let total: Tally = { passed: 0, failed: 0, skipped: 0 };
const broken: string[] = [];
const times: string[] = [];
const lanes = LANES.map((lane) => chosen.filter((check) => check.lane === lane)).filter(
  (lane) => lane.length > 0,
);
const isAlone = lanes.length === 1;
/** Checks that others wait for, by name. */
const ends = new Map<string, () => void>();
const done = new Map(
  chosen.map(({ name }) => [name, new Promise<void>((resolve) => void ends.set(name, resolve))]),
);
await Promise.all(lanes.map(runLane));

for (const note of total.notes ?? []) console.log(`\n${note}`);
console.log(`\n${times.join('\n')}`);
if (broken.length > 0) console.log(`\n${broken.join('\n')}`);
console.log(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
if (total.failed > 0) process.exitCode = 1;

/** Runs the checks of a lane, and then what is left of the last one, in which no check disturbs another. */
async function runLane(checks: Check[]): Promise<void> {
  for (;;) {
    const check = checks.shift() ?? lanes.at(-1)?.shift();
    if (check === undefined) return;
    if (check.after !== undefined) await done.get(check.after);
    console.log(`\n=== ${check.name}`);
    const start = performance.now();
    // If two checks run at once, each shows what it prints when it has ended.
    const { result: tally, output } = isAlone
      ? { result: await check.run(), output: '' }
      : await holdingOutput(() => check.run());
    process.stdout.write(output);
    const seconds = `${((performance.now() - start) / 1000).toFixed(1)} s`;
    total = add(total, tally);
    if (tally.failed > 0) broken.push(`FAILED ${check.name}`, ...(tally.failures ?? []).map(indented));
    times.push(`${seconds.padStart(8)}  ${check.lane.padEnd(9)}  ${check.name}`);
    console.log(`=== ${check.name}: ${tally.failed === 0 ? 'ok' : 'FAILED'}, ${seconds}`);
    ends.get(check.name)?.();
  }
}

/** Marks each line, so that CI can repeat the failures of all commands at its end. */
function indented(text: string): string {
  return text.replaceAll(/^/gm, 'FAILED   ');
}
