import { CHECKS } from './checks.js';
import { add, type Tally } from './run.js';

/**
 * `npm test` runs the tests, `npm run check` everything else. Names on the command line select checks:
 * `npm run check -- types sizes`. The last line counts the results.
 */

const [kind = 'check', ...names] = process.argv.slice(2);
const chosen = CHECKS.filter(
  (check) =>
    check.isTest === (kind === 'test') &&
    (names.length === 0 || names.some((name) => check.name.startsWith(name))),
);

let total: Tally = { passed: 0, failed: 0, skipped: 0 };
const broken: string[] = [];
for (const check of chosen) {
  const start = performance.now();
  console.log(`\n=== ${check.name}`);
  const tally = await check.run();
  total = add(total, tally);
  if (tally.failed > 0) broken.push(`FAILED ${check.name}`, ...(tally.failures ?? []).map(indented));
  console.log(
    `=== ${check.name}: ${tally.failed === 0 ? 'ok' : 'FAILED'}, ${((performance.now() - start) / 1000).toFixed(1)} s`,
  );
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
