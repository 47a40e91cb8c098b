import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { freePort } from '../../../packages/server/src/engine/testing/free-port.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import type { WorkerPage } from './h11-worker-page.js';

const missing = chromiumMissing();

describe.skipIf(missing !== undefined)(missing ?? 'a session in a worker of a page', () => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  beforeAll(async () => {
    bundle = await bundleFile(fileURLToPath(new URL('./h11-worker-page.ts', import.meta.url)), {
      fromSource: true,
    });
    files = await serveCompressed(bundle.folder, {});
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
  });

  const ask = (page: Page, ...instruction: Parameters<WorkerPage['ask']>): Promise<string> =>
    page.evaluate((each) => (globalThis as never as WorkerPage).ask(...each), instruction);

  it('waits for its server as that of a page does', async () => {
    const page = await browser.newPage();
    await page.goto(files.origin);
    const port = await freePort();
    const connected = ask(page, 'connect', JSON.stringify({ url: `ws://127.0.0.1:${port}` }));
    await pause(500);
    await using server = createServer({ origins: [files.origin] });
    await server.listen({ port, host: '127.0.0.1' });
    expect(await connected).toMatch(/^sess_/);
    await page.close();
  });

  it('connects again at once when the network is back', async () => {
    await using server = createServer({ origins: [files.origin], onRequest: ({ text }) => `${text}!` });
    const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
    await using proxy = await createCuttingProxy(port);
    const page = await browser.newPage();
    await page.goto(files.origin);
    // No test waits for that.
    const reconnect = { minDelayMs: 1e8, maxDelayMs: 1e8 };
    const options = { url: `ws://127.0.0.1:${proxy.port}`, reconnect };
    expect(await ask(page, 'connect', JSON.stringify(options))).toMatch(/^sess_/);
    expect(await ask(page, 'request', 'one')).toBe('one!');
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => ask(page, 'state', '')).toBe('suspended');
    proxy.refuse(false);
    await expect
      .poll(async () => {
        await ask(page, 'online', '');
        return await ask(page, 'state', '');
      })
      .toBe('established');
    expect(await ask(page, 'request', 'two')).toBe('two!');
    await page.close();
  });
});
