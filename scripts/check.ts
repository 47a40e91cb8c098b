import { CHECKS, type Check } from './checks.js';
import { add, holdingOutput, type Tally } from './run.js';

/**
 * `npm test` runs the tests, `npm run check` everything else. Names on the command line select checks:
 * `npm run check -- types sizes`. Checks that mostly wait run at once. The last line counts the results.
 */

const [kind = 'check', ...names] = process.argv.slice(2);
const chosen = CHECKS.filter(
  (check) =>
    check.isTest === (kind === 'test') &&
    (names.length === 0 || names.some((name) => check.name.startsWith(name))),
);

let total: Tally = { passed: 0, failed: 0, skipped: 0 };
const broken: string[] = [];
const started = new Map<Check, Promise<Finished>>();
for (const check of chosen) {
  console.log(`\n=== ${check.name}`);
  const { beside } = check;
  const together = beside === undefined ? [] : chosen.filter((other) => other.beside === beside);
  // The first of those that run at once shows what it prints; the others are shown when it has ended.
  for (const other of together) if (other !== check && !started.has(other)) started.set(other, hold(other));
  const { tally, seconds, output } = await (started.get(check) ?? finish(check));
  if (output !== undefined) process.stdout.write(output);
  total = add(total, tally);
  if (tally.failed > 0) broken.push(`FAILED ${check.name}`, ...(tally.failures ?? []).map(indented));
  console.log(`=== ${check.name}: ${tally.failed === 0 ? 'ok' : 'FAILED'}, ${seconds.toFixed(1)} s`);
}
if (chosen.length === 0) {
  console.error(
    `no check begins with ${names.join(', ')}; there are ${CHECKS.map((check) => check.name).join(', ')}`,
  );
  process.exitCode = 1;
}
for (const note of total.notes ?? []) console.log(`\n${note}`);
if (broken.length > 0) console.log(`\n${broken.join('\n')}`);
console.log(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
if (total.failed > 0) process.exitCode = 1;

/** Marks each line, so that CI can repeat the failures of all commands at its end. */
function indented(text: string): string {
  return text.replaceAll(/^/gm, 'FAILED   ');
}

interface Finished {
  readonly tally: Tally;
  readonly seconds: number;
  /** What it has printed, if that was held back. */
  readonly output?: Buffer;
}

async function finish(check: Check): Promise<Finished> {
  const start = performance.now();
  const tally = await check.run();
  return { tally, seconds: (performance.now() - start) / 1000 };
}

async function hold(check: Check): Promise<Finished> {
  const { result, output } = await holdingOutput(() => finish(check));
  return { ...result, output };
}
