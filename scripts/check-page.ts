import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser } from 'playwright-core';
import {
  CHAT_PAGE_BUDGET,
  MAX_OTHER_ROOM,
  PAGE_BUDGETS,
  type PageBudget,
  ROOM_BUDGETS,
} from '../bench/src/page/budget.js';
import { bundlePage } from '../bench/src/page/bundle.js';
import { modulesOf, roomsOf } from '../bench/src/page/modules.js';
import type { PageServerCommands } from '../bench/src/page/server.js';
import { serveCompressed } from '../bench/src/page/static-files.js';
import { type Transferred, Transfers } from '../bench/src/page/transfers.js';
import { visit } from '../bench/src/page/visit.js';
import { startChild } from './child-process.js';
import { launchChromium } from './chromium.js';

/** Visits pages in Chromium, after a build, and fails if one downloads more than its budget. Times do not count. */

/** What a page loads while idle may begin before its first message, by chance; the lightest visit counts. */
const VISITS = 3;
const STAY_MS = 3_000;

let [passed, failed] = [0, 0];
const servers = startChild<PageServerCommands>(new URL('../bench/src/page/server.ts', import.meta.url), []);
try {
  const { session } = await servers.call('urls', 0);
  await using browser = await launchChromium();
  for (const budget of PAGE_BUDGETS) await check(budget, browser, session);
  await checkChatPage(browser, await servers.call('chatPage'));
} finally {
  servers.stop();
}
await checkRooms();
await checkSentences();
console.log(`${passed} passed, ${failed} failed`);
if (failed > 0) process.exitCode = 1;

async function check(
  { page, title, atFirstMessage, afterIdle }: PageBudget,
  browser: Browser,
  server: string,
): Promise<void> {
  await using bundle = await bundlePage(page);
  await using files = await serveCompressed(bundle.folder);
  const url = `${files.origin}/?server=${encodeURIComponent(server)}`;
  const visits = [];
  for (let i = 0; i < VISITS; i++) visits.push(await visit(browser, url, { stayMs: STAY_MS }));
  const least = (transferred: readonly Transferred[]) => ({
    bytes: Math.min(...transferred.map(({ bytes }) => bytes)),
    requests: Math.min(...transferred.map(({ requests }) => requests)),
  });
  compare(`${title}, first message`, least(visits.map(({ toShown }) => toShown)), atFirstMessage);
  compare(`${title}, ${STAY_MS / 1000} s later`, least(visits.map(({ total }) => total)), afterIdle);
}

/** What `parlance serve` shows, connected and idle. */
async function checkChatPage(browser: Browser, url: string): Promise<void> {
  const page = await browser.newPage();
  const transfers = await Transfers.watch(await page.context().newCDPSession(page));
  await page.goto(url);
  await page.locator('body[data-state="connected"]').waitFor();
  await sleep(STAY_MS);
  await transfers.settled();
  await page.close();
  compare('the chat page, idle', transfers.until(Infinity), CHAT_PAGE_BUDGET);
}

/** That an error of the built code gets its sentence. */
async function checkSentences(): Promise<void> {
  const url = new URL('../packages/protocol/dist/web/client.js', import.meta.url);
  const { resolveLimits, sentenceOf }: typeof import('../packages/protocol/src/client.js') = await import(
    url.href
  );
  const said = 'limit maxStreams must be a positive whole number or Infinity, not -1';
  try {
    resolveLimits({ maxStreams: -1 });
  } catch (error) {
    const before = (error as Error).message;
    await sentenceOf(error);
    const { message, stack = '' } = error as Error;
    const isSaid = !before.includes(said) && message === said && stack.includes(said);
    isSaid ? passed++ : failed++;
    if (!isSaid) console.log(`✗ an error of a page says ${JSON.stringify([before, message])}`);
  }
}

/** What each room costs every page. */
async function checkRooms(): Promise<void> {
  await using bundle = await bundlePage('send', { fromSource: true, sourcemap: true });
  for (const { room, raw } of roomsOf(await modulesOf(bundle))) {
    const most = ROOM_BUDGETS[room] ?? MAX_OTHER_ROOM;
    raw <= most ? passed++ : failed++;
    if (raw > most) console.log(`✗ the room ${room}: ${raw} bytes in every page, at most ${most} allowed`);
  }
}

function compare(what: string, found: Transferred, most: Transferred): void {
  const isWithin = found.bytes <= most.bytes && found.requests <= most.requests;
  isWithin ? passed++ : failed++;
  console.log(`${isWithin ? '✓' : '✗'} ${what}: ${inWords(found)}, at most ${inWords(most)} allowed`);
}

function inWords({ bytes, requests }: Transferred): string {
  return `${(bytes / 1000).toFixed(1)} kB in ${requests} requests`;
}
