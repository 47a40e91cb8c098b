import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import type { Browser, Page } from 'playwright-core';
import { makeCapture } from '../../../e2e/src/kit/captures.js';
import { BUILT_PAGES, buildUserInterface } from '../../../scripts/build-ui.js';
import { chromiumMissing, launchChromium, WHOLE_CHROMIUM } from '../../../scripts/chromium.js';
import { compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import { LONG_TASK_MS, WATCH_LONG_TASKS } from './long-tasks.js';

/** How long the inspector keeps its page busy with the most frames that it keeps. */

const FRAMES = 5_000;
const HEX_BYTES = 4_096;
/** Rows that are looked at by keyboard. */
const STEPS = 40;

export async function* inspector(quick: boolean): AsyncGenerator<Row> {
  const missing = chromiumMissing();
  if (missing !== undefined) {
    console.error(`skipped the inspector: ${missing}`);
    return;
  }
  await buildUserInterface();
  const folder = await mkdtemp(join(tmpdir(), 'parlance-bench-inspector-'));
  const capture = join(folder, 'capture.jsonl');
  await writeFile(capture, makeCapture({ frames: FRAMES, hexBytes: HEX_BYTES }));
  await using server = createServer();
  const { port } = await server.listen({ respond: createUserInterface({ folder: BUILT_PAGES }) });
  await using browser = await launchChromium(WHOLE_CHROMIUM);
  const visits: Longest[] = [];
  for (let run = 0; run < (quick ? 1 : 3); run++)
    visits.push(await visit(browser, `http://127.0.0.1:${port}/inspect`, capture));
  await rm(folder, { recursive: true, force: true });
  const limit = { name: 'a long task', value: LONG_TASK_MS };
  for (const [what, figureOf] of [
    ['opens 5,000 frames', ({ opening }: Longest) => opening],
    ['goes through its rows', ({ browsing }: Longest) => browsing],
    ['filters them', ({ filtering }: Longest) => filtering],
  ] as const)
    yield compare(`inspector ${what}: longest task`, 'ms', 'lower', median(visits.map(figureOf)), limit);
}

/** The longest task of each step in milliseconds; 0 if none took over 50 ms. */
interface Longest {
  readonly opening: number;
  readonly browsing: number;
  readonly filtering: number;
}

async function visit(browser: Browser, url: string, capture: string): Promise<Longest> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  try {
    const page = await context.newPage();
    await page.addInitScript(WATCH_LONG_TASKS);
    await page.goto(url);
    await takeLongest(page);
    await page.setInputFiles('input[type=file]', capture);
    await page.getByText(/^capture\.jsonl: /).waitFor();
    const opening = await takeLongest(page);
    await page.getByRole('grid').focus();
    for (let step = 0; step < STEPS; step++)
      await page.keyboard.press(step % 10 === 9 ? 'PageUp' : 'ArrowUp');
    const browsing = await takeLongest(page);
    await page.keyboard.press('/');
    await page.keyboard.type('lazy #3', { delay: 20 });
    await page.keyboard.press('Escape');
    return { opening, browsing, filtering: await takeLongest(page) };
  } finally {
    await context.close();
  }
}

/** Of the tasks since the last call. */
async function takeLongest(page: Page): Promise<number> {
  return await page.evaluate<number>(`new Promise((resolve) => setTimeout(() => {
    resolve(Math.max(0, ...window.longTasks.splice(0).map(({ ms }) => ms)));
  }, 300))`);
}
