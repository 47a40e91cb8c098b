import type { Browser, Page } from 'playwright-core';
import { buildUserInterface } from '../../../scripts/build-ui.js';
import { startChild } from '../../../scripts/child-process.js';
import { chromiumMissing, launchChromium, WHOLE_CHROMIUM } from '../../../scripts/chromium.js';
import type { Row } from '../row.js';
import { median } from '../statistics.js';
import { bundlePage } from './bundle.js';
import { LONG_TASK_MS, WATCH_LONG_TASKS } from './long-tasks.js';
import type { ReadingServerCommands } from './reading/server.js';
import { serveCompressed } from './static-files.js';

/**
 * How smoothly an answer of 5,000 words appears at 1,200 a second: on the chat page, and on a page with `useChat` and
 * react-markdown that paints every 50 ms, in turns. Each is empty first, and then has 150 turns.
 */

const TURNS = 150;
/** Frames of 60 a second that come later than this are missed by three. */
const SLOW_FRAME_MS = 50;
/** Characters of 5,000 words. */
const LEAST_SHOWN = 20_000;
const SHORT = 'Write in short.';

/** Runs before the page's own scripts, and fills `window.frameTimes` with the times between two frames. */
const WATCH_FRAMES = `
  window.frameTimes = [];
  let last = 0;
  const next = (now) => { frameTimes.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
`;

interface Contestant {
  readonly url: string;
  /** Finds an element as soon as the page can ask. */
  readonly ready: string;
  /** An expression for how many answers are complete. */
  readonly done: string;
  /** An expression for whether an answer has failed. */
  readonly failed: string;
}

interface Read {
  readonly slowFrames: number;
  readonly longestFrameMs: number;
  /** 0 if none took over 50 ms. */
  readonly longestTaskMs: number;
}

interface Figures {
  readonly empty: Read;
  readonly full: Read;
  /** Bytes of objects after garbage collection, and nodes of the document, with twice as many turns. */
  readonly memory: { readonly bytes: number; readonly nodes: number };
}

export async function* reading(quick: boolean): AsyncGenerator<Row> {
  const missing = chromiumMissing();
  if (missing !== undefined) {
    console.error(`skipped the pages with answers: ${missing}`);
    return;
  }
  await buildUserInterface();
  await using bundle = await bundlePage('use-chat', { define: { 'process.env.NODE_ENV': '"production"' } });
  await using files = await serveCompressed(bundle.folder);
  const servers = startChild<ReadingServerCommands>(new URL('./reading/server.ts', import.meta.url), []);
  try {
    await using browser = await launchChromium(WHOLE_CHROMIUM);
    const ours = {
      url: await servers.call('ours'),
      ready: 'body[data-state="connected"]',
      done: `document.querySelectorAll('.answer[data-state="done"]').length`,
      failed: `document.querySelector('.answer:is([data-state="failed"], [data-state="interrupted"])') !== null`,
    };
    const theirs = {
      url: await servers.call('theirs', files.origin),
      ready: 'input',
      done: 'Number(document.body.dataset.done)',
      failed: `'failed' in document.body.dataset`,
    };
    const all: [Figures, Figures][] = [];
    for (let run = 0; run < (quick ? 1 : 3); run++)
      all.push([await measure(browser, ours), await measure(browser, theirs)]);
    yield* rowsOf(all);
  } finally {
    servers.stop();
  }
}

function* rowsOf(all: readonly [Figures, Figures][]): Generator<Row> {
  const row = (name: string, unit: string, figureOf: (figures: Figures) => number, target?: number): Row => {
    const value = median(all.map(([ours]) => figureOf(ours)));
    const other = median(all.map(([, theirs]) => figureOf(theirs)));
    const most = target ?? other;
    return {
      name: `chat page: ${name}`,
      value,
      unit,
      baseline: 'useChat, react-markdown',
      ratio: value === other ? 1 : value / other,
      better: 'lower',
      target: { text: target === undefined ? 'no more' : `<= ${target} ${unit}`, met: value <= most },
    };
  };
  for (const [title, readOf] of [
    ['empty', ({ empty }: Figures) => empty],
    [`after ${TURNS} turns`, ({ full }: Figures) => full],
  ] as const) {
    yield row(`frames over ${SLOW_FRAME_MS} ms, ${title}`, 'frames', (figures) => readOf(figures).slowFrames);
    yield row(`longest frame, ${title}`, 'ms', (figures) => readOf(figures).longestFrameMs);
    yield row(`longest task, ${title}`, 'ms', (figures) => readOf(figures).longestTaskMs, LONG_TASK_MS);
  }
  yield row(`objects after ${2 * TURNS} turns`, 'MB', ({ memory }) => memory.bytes / 1_000_000);
  yield row(`nodes after ${2 * TURNS} turns`, 'nodes', ({ memory }) => memory.nodes);
}

async function measure(browser: Browser, contestant: Contestant): Promise<Figures> {
  const empty = await withPage(browser, contestant, async (page) => {
    // What the page loads with its first question is loaded then.
    await ask(page, SHORT, contestant, { from: 1, to: 1 });
    return await read(page, contestant, 2);
  });
  return await withPage(browser, contestant, async (page) => {
    await ask(page, SHORT, contestant, { from: 1, to: TURNS });
    const full = await read(page, contestant, TURNS + 1);
    await ask(page, SHORT, contestant, { from: TURNS + 2, to: 2 * TURNS });
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('HeapProfiler.collectGarbage');
    const { usedSize } = await cdp.send('Runtime.getHeapUsage');
    const nodes = await page.evaluate<number>(`document.querySelectorAll('*').length`);
    return { empty, full, memory: { bytes: usedSize, nodes } };
  });
}

async function withPage<Result>(
  browser: Browser,
  { url, ready }: Contestant,
  run: (page: Page) => Promise<Result>,
): Promise<Result> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  try {
    const page = await context.newPage();
    await page.addInitScript(WATCH_LONG_TASKS);
    await page.addInitScript(WATCH_FRAMES);
    await page.goto(url);
    await page.locator(ready).waitFor();
    return await run(page);
  } finally {
    await context.close();
  }
}

/** Asks by the page's own form, from within: a driver outside would take longer than the page. */
async function ask(
  page: Page,
  question: string,
  { done, failed }: Contestant,
  { from, to }: { from: number; to: number },
) {
  await page.evaluate(`(async () => {
    const input = document.querySelector('#question, #root input');
    const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(input), 'value');
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    for (let answers = ${from}; answers <= ${to}; answers++) {
      set.call(input, ${JSON.stringify(question)});
      input.dispatchEvent(new Event('input', { bubbles: true }));
      await pause(0);
      input.form.requestSubmit();
      while (${done} < answers) {
        if (${failed}) throw new Error('answer ' + answers + ' has failed: ' + document.body.innerText.slice(-500));
        await pause(5);
      }
    }
  })()`);
}

async function read(page: Page, contestant: Contestant, answers: number): Promise<Read> {
  await page.evaluate('longTasks.length = frameTimes.length = 0');
  await ask(page, 'Write at length.', contestant, { from: answers, to: answers });
  const shown = await page.evaluate<number>('document.body.innerText.length');
  if (shown < LEAST_SHOWN) throw new Error(`${page.url()} shows ${shown} characters of a long answer`);
  // The last tasks and frames are reported behind them.
  return await page.evaluate<Read>(`new Promise((resolve) => setTimeout(() => {
    const frames = window.frameTimes.slice(1);
    resolve({
      slowFrames: frames.filter((ms) => ms > ${SLOW_FRAME_MS}).length,
      longestFrameMs: Math.max(...frames),
      longestTaskMs: Math.max(0, ...window.longTasks.map(({ ms }) => ms)),
    });
  }, 300))`);
}
