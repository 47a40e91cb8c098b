import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, CDPSession } from 'playwright-core';
import { WATCH_LONG_TASKS } from './long-tasks.js';
import { type Transferred, Transfers } from './transfers.js';

/** One visit of a page in Chromium, with an empty cache, and what it cost. */

const TIMEOUT_MS = 60_000;

/** A network and a processor to imitate. */
export interface Conditions {
  /** In both directions. @default unlimited */
  readonly bytesPerSecond?: number;
  /** Between a request and its response. @default none added */
  readonly latencyMs?: number;
  /** How many times slower than it is the processor seems. @default 1 */
  readonly cpuSlowdown?: number;
}

export interface Visit {
  /** From the navigation to the first message on the page. */
  readonly shownMs: number;
  /** The longest task up to that message, and after it: 0 if none took over 50 ms. */
  readonly longestTaskMs: { readonly toShown: number; readonly later: number };
  readonly toShown: Transferred;
  /** All of the visit, including what the page loaded after its first message. */
  readonly total: Transferred;
  /** Bytes of JavaScript objects, and of buffers and WebAssembly memory, after garbage collection. */
  readonly heap: { readonly objects: number; readonly buffers: number };
}

export interface VisitOptions extends Conditions {
  /** How long the page stays open after its first message. @default 0 */
  readonly stayMs?: number;
}

/** @throws if the page throws or shows nothing within a minute. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visit> {
  const { stayMs = 0 } = options;
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const cdp = await context.newCDPSession(page);
    const transfers = await Transfers.watch(cdp);
    await imitate(cdp, options);
    await page.addInitScript(WATCH_LONG_TASKS);
    const complaints: string[] = [];
    page.on('console', (message) => complaints.push(message.text()));
    const shown = new Promise<number>((resolve, reject) => {
      cdp.on('Runtime.bindingCalled', ({ name, payload }) => {
        if (name === 'reportShown') resolve(Number(payload));
      });
      page.on('pageerror', reject);
      sleep(TIMEOUT_MS, undefined, { ref: false }).then(() =>
        reject(new Error(`${url} showed no message within ${TIMEOUT_MS} ms: ${complaints.join('; ')}`)),
      );
    });
    await cdp.send('Runtime.enable');
    await cdp.send('Runtime.addBinding', { name: 'reportShown' });
    const [shownMs] = await Promise.all([shown, page.goto(url, { timeout: TIMEOUT_MS })]);
    await sleep(stayMs);
    if (stayMs > 0) await transfers.settled();
    const { timeOrigin, longTasks } = await page.evaluate<PageRecord>(READ_RECORD);
    const longest = (isCounted: (start: number) => boolean) =>
      Math.max(0, ...longTasks.filter(({ start }) => isCounted(start)).map(({ ms }) => ms));
    await cdp.send('HeapProfiler.collectGarbage');
    const heap = await cdp.send('Runtime.getHeapUsage');
    return {
      shownMs,
      longestTaskMs: {
        toShown: longest((start) => start <= shownMs),
        later: longest((start) => start > shownMs),
      },
      toShown: transfers.until(timeOrigin + shownMs),
      total: transfers.until(Infinity),
      heap: { objects: heap.usedSize, buffers: heap.backingStorageSize },
    };
  } finally {
    await context.close();
  }
}

export async function imitate(
  cdp: CDPSession,
  { bytesPerSecond = -1, latencyMs = 0, cpuSlowdown = 1 }: Conditions,
): Promise<void> {
  await cdp.send('Network.enable');
  await cdp.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: latencyMs,
    downloadThroughput: bytesPerSecond,
    uploadThroughput: bytesPerSecond,
  });
  if (cpuSlowdown > 1) await cdp.send('Emulation.setCPUThrottlingRate', { rate: cpuSlowdown });
}

interface PageRecord {
  /** Wall-clock milliseconds of the navigation. */
  readonly timeOrigin: number;
  readonly longTasks: readonly { readonly start: number; readonly ms: number }[];
}

const READ_RECORD = '({ timeOrigin: performance.timeOrigin, longTasks })';
