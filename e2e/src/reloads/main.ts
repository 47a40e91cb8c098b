import { readCommandLine } from '../../../scripts/command-line.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import { runReloads } from './run.js';

/** `npm run reloads`: reloads a chat page in the middle of its answers, in Chromium, and compares what it shows. */

const USAGE = `npm run reloads -- [--count N] [--stops N] [--seed N]

Streams answers of one token a part to a page, reloads it at random tokens, and
compares the text that it shows in the end with what the server generated. A
second tab and a second profile of the same principal follow each answer, and
another principal tries to. Then stops answers in one of the three.

  --count N   reloads (1000)
  --stops N   answers that are stopped (100)
  --seed N    of the random tokens (1)`;

const { values } = readCommandLine(USAGE, {
  options: { count: { type: 'string' }, stops: { type: 'string' }, seed: { type: 'string' } },
});
const missing = chromiumMissing();
if (missing !== undefined) throw new Error(missing);
const browser = await launchChromium();
const begun = performance.now();
const result = await runReloads({
  browser,
  reloads: Number(values.count ?? 1_000),
  stops: Number(values.stops ?? 100),
  seed: Number(values.seed ?? 1),
});
await browser.close();

const { reloads, answers, insideCharacters, faults, firstPart, stopped } = result;
const seconds = ((performance.now() - begun) / 1000).toFixed(0);
console.log(
  `${reloads} reloads of ${answers} answers in ${seconds} s, ${insideCharacters} of them inside a character`,
);
console.log(`first missed part after load: ${quantiles(firstPart)}`);
console.log(`stop in a page to abort of the handler: ${quantiles(stopped)}, ${stopped.length} answers`);
for (const fault of faults.slice(0, 20)) console.log(`✗ ${fault}`);
console.log(faults.length === 0 ? '✓ every page shows what was generated' : `${faults.length} faults`);
process.exitCode = faults.length === 0 ? 0 : 1;

function quantiles(times: readonly number[]): string {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0).toFixed(0);
  return `p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms`;
}
