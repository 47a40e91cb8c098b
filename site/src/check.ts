import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import MiniSearch from 'minisearch';
import type { Browser } from 'playwright-core';
import { serveCompressed } from '../../bench/src/page/static-files.js';
import { launchChromium } from '../../scripts/chromium.js';
import { FOREIGN_WORDS, SEARCH_OPTIONS } from './search.js';

/** Checks the built site: what a first visit to a guide and to a page with drawings loads, and that the search answers words of other libraries. */

/** A first visit loads no more than this, with `gzip -9` and headers. Nothing is loaded ahead. */
const MAX_BYTES = 100_000;
/** An answer is among the first results, which a reader sees without scrolling. */
const MAX_RANK = 5;
const ANSWERS = '/how-do-i.html';

const dist = fileURLToPath(new URL('../dist', import.meta.url));
let [passed, failed] = [0, 0];

await using files = await serveCompressed(dist);
await using browser = await launchChromium();
for (const path of [largestGuide(), '/protocol/session.html']) await checkVisit(browser, path);
checkSearch();
await checkSearchBox(browser);
console.log(`${passed} passed, ${failed} failed`);
if (failed > 0) process.exitCode = 1;

function count(isGood: boolean, what: string): void {
  isGood ? passed++ : failed++;
  if (!isGood) console.error(`✗ ${what}`);
}

/** All guides load the same files beside their own. */
function largestGuide(): string {
  const size = (name: string) => gzipSync(readFileSync(join(dist, 'guide', name))).length;
  const names = readdirSync(join(dist, 'guide')).filter((name) => name.endsWith('.html'));
  return `/guide/${names.sort((a, b) => size(b) - size(a))[0]}`;
}

async function checkVisit(browser: Browser, path: string): Promise<void> {
  const page = await browser.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() !== 'log') complaints.push(message.text());
  });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Network.enable');
  let [bytes, requests] = [0, 0];
  cdp.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
    requests++;
  });
  await page.goto(files.origin + path, { waitUntil: 'networkidle' });
  await page.close();
  const loaded = `${path}: ${(bytes / 1000).toFixed(1)} kB in ${requests} requests`;
  console.log(`${loaded}, at most ${MAX_BYTES / 1000} kB allowed`);
  count(bytes <= MAX_BYTES, loaded);
  count(complaints.length === 0, `${path} says ${complaints.join('; ')}`);
}

/** In the index that the pages load. */
function checkSearch(): void {
  const chunks = join(dist, 'assets/chunks');
  const [name = ''] = readdirSync(chunks).filter((each) => each.startsWith('@localSearchIndex'));
  const { index } = indexIn(readFileSync(join(chunks, name), 'utf8'));
  for (const words of FOREIGN_WORDS) {
    const results = index
      .search(words)
      .slice(0, MAX_RANK)
      .map(({ id }) => String(id));
    count(
      results.some((id) => id.startsWith(ANSWERS)),
      `the search answers "${words}" with ${results.join(' ')}`,
    );
  }
}

/** The chunk exports a string. */
function indexIn(chunk: string): { readonly index: MiniSearch } {
  const literal = /^const \w+\s*=\s*(.+);\s*export\s*\{/s.exec(chunk)?.[1];
  if (literal === undefined) throw new Error('the index of the search is not a string');
  const json = new Function(`return ${literal}`)() as string;
  return {
    index: MiniSearch.loadJSON(json, {
      fields: ['title', 'titles', 'text'],
      storeFields: ['title', 'titles'],
      searchOptions: SEARCH_OPTIONS,
    }),
  };
}

async function checkSearchBox(browser: Browser): Promise<void> {
  const page = await browser.newPage();
  await page.goto(files.origin);
  await page.locator('.VPNavBarSearchButton, #local-search button').first().click();
  await page.locator('#localsearch-input').fill('typing indicator');
  const first = page.locator('.VPLocalSearchBox .results a').first();
  await first.waitFor();
  const target = await first.getAttribute('href');
  count(target === '/how-do-i.html#show-a-typing-indicator', `the search box leads to ${target}`);
  await page.close();
}
