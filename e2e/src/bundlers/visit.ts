import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Browser, Page } from 'playwright-core';
import { serveFiles } from '../kit/chat-page.js';
import type { Call, Outcome } from './cases.js';
import { createEchoServer } from './server.js';

/** A built page in a real browser, at the same origin as a session server. */

/** The files that the page fetched, and their bytes as they are and with gzip. */
export interface Fetched {
  readonly files: readonly string[];
  readonly bytes: number;
  readonly gzipped: number;
}

export interface Visit {
  readonly outcomes: readonly Outcome[];
  /** The files that it had fetched after the first call, and after the last one. */
  readonly first: Fetched;
  readonly last: Fetched;
  /** Console errors, uncaught exceptions and failed requests. */
  readonly complaints: readonly string[];
}

type Globals = Record<string, (url: string, options: object) => Promise<unknown>>;

/** Loads the page of `folder` and makes the calls, one after the other. */
export async function visit(browser: Browser, folder: string, calls: readonly Call[]): Promise<Visit> {
  await using files = await serveFiles(folder);
  await using server = createEchoServer();
  const [answer] = files.http.listeners('request');
  files.http.removeAllListeners('request');
  files.http.on('request', (...exchange) => server.respond(...exchange) || answer?.(...exchange));
  server.attach(files.http);
  await using context = await browser.newContext();
  const page = await context.newPage();
  const complaints: string[] = [];
  const paths: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${message.text()} ${message.location().url}`);
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('requestfailed', (request) => {
    const failure = `${request.url()}: ${request.failure()?.errorText}`;
    // A session over HTTP ends its stream like this when it is closed.
    if (!/\/stream: net::ERR_ABORTED$/.test(failure)) complaints.push(failure);
  });
  page.on('response', (response) => {
    const { origin, pathname } = new URL(response.url());
    if (response.status() >= 400) complaints.push(`${pathname}: ${response.status()}`);
    else if (origin === files.origin && response.request().method() === 'GET') paths.push(pathname);
  });
  await page.goto(`${files.origin}/`);
  await page.waitForFunction(() => typeof (globalThis as unknown as Globals)['exchange'] === 'function');

  const outcomes: Outcome[] = [];
  let first: Fetched | undefined;
  for (const call of calls) {
    outcomes.push(await callInPage(page, files.origin.replace('http', 'ws'), call));
    first ??= await measure(folder, paths);
  }
  const last = await measure(folder, paths);
  return { outcomes, first: first ?? last, last, complaints };
}

function callInPage(page: Page, origin: string, { name, options }: Call): Promise<Outcome> {
  return page.evaluate(
    async ([called, url, given]) => {
      const run = (globalThis as unknown as Globals)[called];
      if (run === undefined) return { message: `the page has no ${called}` };
      return await run(url, given).then(
        (value) => ({ value }),
        ({ code, message }) => ({ code, message }),
      );
    },
    [name, `${origin}/session`, options] as const,
  );
}

async function measure(folder: string, paths: readonly string[]): Promise<Fetched> {
  const files = [...new Set(paths)].filter((path) => !path.endsWith('/'));
  const contents = await Promise.all(files.map((path) => readFile(join(folder, decodeURIComponent(path)))));
  const total = (sizes: readonly number[]) => sizes.reduce((sum, size) => sum + size, 0);
  return {
    files,
    bytes: total(contents.map(({ length }) => length)),
    gzipped: total(contents.map((content) => gzipSync(content).length)),
  };
}
