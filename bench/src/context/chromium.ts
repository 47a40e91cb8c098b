import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import type { Child } from '../../../scripts/child-process.js';
import { chromiumMissing, launchChromium, WHOLE_CHROMIUM } from '../../../scripts/chromium.js';
import type { Row } from '../row.js';
import type { History } from './histories.js';
import type { PageResult } from './page/main.js';
import { busyRow, sizes } from './rows.js';
import type { FarCommands } from './server.js';

/** The same histories, sent to the same server by a page in Chromium. */

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.wasm': 'application/wasm',
  '.json': 'application/json',
};

export async function* inChromium(
  far: Child<FarCommands>,
  histories: readonly History[],
  isGiven: boolean,
  rounds: number,
): AsyncGenerator<Row> {
  const missing = chromiumMissing();
  if (missing !== undefined) {
    console.error(`skipped Chromium: ${missing}`);
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), 'parlance-bench-'));
  await build({
    root: fileURLToPath(new URL('./page', import.meta.url)),
    logLevel: 'error',
    build: { outDir: folder, emptyOutDir: true, reportCompressedSize: false, target: 'es2023' },
  });
  const files = await serve(folder, histories);
  const browser = await launchChromium(WHOLE_CHROMIUM);
  try {
    const port = await far.call('port', 'session');
    const page = await browser.newPage();
    await page.goto(`${files.origin}/index.html`);
    await page.waitForFunction('window.measure !== undefined');
    for (const [i, history] of histories.entries()) {
      const url = `/histories/${i}.json`;
      await page.evaluate(`window.begin(${port})`);
      const before = (await far.call('traffic', 'session')).read;
      await page.evaluate(`window.send('${url}')`);
      const bytes = (await far.call('traffic', 'session')).read - before;
      const json = history.requests.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
      yield* sizes(
        `${history.requests.length} requests, ${history.name}, Chromium`,
        bytes,
        json,
        history,
        isGiven,
      );
      const { busy, brotli } = (await page.evaluate(
        `window.measure('${url}', ${port}, ${rounds})`,
      )) as PageResult;
      yield busyRow(`${history.name}, Chromium`, busy, brotli);
    }
  } finally {
    await browser.close();
    await files.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Serves the page with the headers that give it the finest clock a browser has. */
async function serve(folder: string, histories: readonly History[]) {
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url ?? '/', 'http://host').pathname);
    const history = /^\/histories\/(\d+)\.json$/.exec(path);
    try {
      const content =
        history === null
          ? await readFile(join(folder, path))
          : JSON.stringify(histories[Number(history[1])]?.requests);
      response.writeHead(200, {
        'content-type': MEDIA_TYPES[extname(path)] ?? 'application/octet-stream',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-embedder-policy': 'require-corp',
      });
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
