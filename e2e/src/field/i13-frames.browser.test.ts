import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import type { Frame } from 'playwright-core';
import { expect, it } from 'vitest';
import { bundleFile } from '../../../bench/src/page/bundle.js';
import { serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import type { ClientPage } from './i10-page.js';

const missing = chromiumMissing();

it.skipIf(missing !== undefined)(
  'a page and its frames each find their own session after a reload',
  async () => {
    const file = fileURLToPath(new URL('./i10-page.ts', import.meta.url));
    await using bundle = await bundleFile(file, { fromSource: true });
    await using files = await serveCompressed(bundle.folder);
    const elsewhere = files.origin.replace('127.0.0.1', 'localhost');
    await using server = createServer({ origins: [files.origin, elsewhere] });
    const { url } = await server.listen({ port: 0, host: '127.0.0.1' });
    await using browser = await launchChromium();
    const page = await browser.newPage();
    const connect = async (frame: Frame): Promise<string> => {
      await frame.waitForFunction(() => 'client' in globalThis);
      return await frame.evaluate(async (url) => {
        const { client } = globalThis as never as ClientPage;
        return (await client.connect(url, { store: 'session' })).id;
      }, url);
    };
    /** The sessions of the page, of two frames of its own, and of one of another site. */
    const sessions = async (): Promise<readonly string[]> => {
      await page.goto(files.origin);
      for (const origin of [files.origin, files.origin, elsewhere]) {
        const added = page.waitForEvent('frameattached');
        await page.evaluate((src) => {
          document.body.append(Object.assign(document.createElement('iframe'), { src }));
        }, origin);
        await added;
      }
      const ids: string[] = [];
      for (const frame of page.frames()) ids.push(await connect(frame));
      return ids;
    };
    const before = await sessions();
    expect(new Set(before).size).toBe(4);
    expect(await sessions()).toEqual(before);
  },
);
