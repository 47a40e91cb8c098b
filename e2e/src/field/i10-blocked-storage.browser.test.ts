import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import { expect, it } from 'vitest';
import { bundleFile } from '../../../bench/src/page/bundle.js';
import { serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import type { ClientPage } from './i10-page.js';

const missing = chromiumMissing();

it.skipIf(missing !== undefined)('a page whose storage is blocked has a session of its own', async () => {
  const file = fileURLToPath(new URL('./i10-page.ts', import.meta.url));
  await using bundle = await bundleFile(file, { fromSource: true });
  await using files = await serveCompressed(bundle.folder, {
    // As in a frame without allow-same-origin; frames of other sites are as restricted if their cookies are blocked.
    'content-security-policy': 'sandbox allow-scripts',
    'access-control-allow-origin': '*',
  });
  await using server = createServer({
    origins: ['null'],
    authenticate: () => ({ principal: 'ann' }),
    onRequest: ({ text }) => `re: ${text}`,
  });
  const { url } = await server.listen({ port: 0, host: '127.0.0.1' });
  await using browser = await launchChromium();
  const page = await browser.newPage();
  await page.goto(files.origin);
  const asked = page.evaluate(async (url) => {
    const { client } = globalThis as never as ClientPage;
    const answers: string[] = [];
    for (const options of [{ shared: true }, { store: 'session' }, { transports: ['http'] }] as const) {
      const session = await client.connect(url, options);
      answers.push((await session.request(`${origin} ${isSecureContext}`)).text);
    }
    return answers;
  }, url);
  expect(await asked).toEqual(Array(3).fill('re: null true'));
});
