import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import { expect, it } from 'vitest';
import { bundleFile } from '../../../bench/src/page/bundle.js';
import { serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import type { RefreshedPage } from './i11-refreshed-page.js';

const missing = chromiumMissing();

it.skipIf(missing !== undefined)('an edit of a component keeps its session and its answer', async () => {
  const file = fileURLToPath(new URL('./i11-refreshed-page.ts', import.meta.url));
  const define = { 'process.env.NODE_ENV': '"development"' };
  await using bundle = await bundleFile(file, { fromSource: true, define });
  await using files = await serveCompressed(bundle.folder);
  let goOn = (): void => {};
  const edited = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  await using server = createServer({
    origins: [files.origin],
    async *onRequest() {
      yield 'one ';
      await edited;
      yield 'two';
    },
  });
  const { url } = await server.listen({ port: 0, host: '127.0.0.1' });
  await using browser = await launchChromium();
  const page = await browser.newPage();
  await page.addInitScript(() => {
    const tools: Record<string, unknown> = {};
    const hook = {
      supportsFiber: true,
      inject: (refresher: unknown) => Object.assign(tools, { refresher }),
      onCommitFiberRoot: (_id: unknown, root: unknown) => Object.assign(tools, { root }),
      onCommitFiberUnmount() {},
    };
    Object.assign(globalThis, { __REACT_DEVTOOLS_GLOBAL_HOOK__: hook, tools });
  });
  await page.goto(`${files.origin}?server=${url}`);
  const shown = expect.poll(() => page.locator('output').allTextContents());
  await shown.toEqual(['first', expect.stringMatching(/^sess_/), '']);
  const [, id] = await page.locator('output').allTextContents();
  await page.locator('button').click();
  await shown.toEqual(['first', id, 'one ']);
  await page.evaluate(() => (globalThis as never as RefreshedPage).edit());
  await shown.toEqual(['second', id, 'one ']);
  goOn();
  await shown.toEqual(['second', id, 'one two']);
});
