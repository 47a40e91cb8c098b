import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { serveCompressed } from '../../../bench/src/page/static-files.js';
import { answerTo, createResponder } from '../../../examples/demo/responder.js';
import { chromiumMissing, launchChromium, openPage } from '../kit/chat-page.js';
import type { CspPageResult } from './csp-page.js';

/** Pages whose server forbids them WebAssembly, as a policy without `wasm-unsafe-eval` does. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of the Content-Security-Policy: ${missing}`);
}

const STRICT = "default-src 'none'; script-src 'self'";
const WITH_WASM = `${STRICT} 'wasm-unsafe-eval'`;

/** Short, long enough to compress, repeated, and outside of ASCII. */
const TEXTS = [
  'hello',
  Array.from({ length: 100 }, (_, i) => `Sentence ${i} of a text that compresses well.`).join(' '),
  Array.from({ length: 100 }, (_, i) => `Sentence ${i} of a text that compresses well.`).join(' '),
  'Grüße, 世界, 👋',
  'and what is the weather like in the city where the river bends?',
];

describe.skipIf(missing !== undefined)('a page under a Content-Security-Policy', () => {
  let browser: Browser;
  let bundle: Bundle;

  beforeAll(async () => {
    bundle = await bundleFile(fileURLToPath(new URL('./csp-page.ts', import.meta.url)), { fromSource: true });
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await bundle?.[Symbol.asyncDispose]();
  });

  async function visit(policy: string): Promise<CspPageResult> {
    const headers: Record<string, string> = {};
    await using files = await serveCompressed(bundle.folder, headers);
    const server = createServer({
      origins: [files.origin],
      onRequest: createResponder(),
      async onSession(session) {
        for await (const message of session) await session.send(message.text);
      },
    });
    try {
      const { url } = await server.listen();
      const { host } = new URL(url);
      headers['content-security-policy'] = `${policy}; connect-src ws://${host} http://${host}`;
      const query = new URLSearchParams({ server: url, texts: JSON.stringify(TEXTS) });
      await using opened = await openPage(browser, `${files.origin}/?${query}`);
      // Not `waitForFunction`, which needs `eval`.
      const body = opened.page.locator('body[data-result]');
      await body.waitFor({ state: 'attached' });
      return JSON.parse((await body.getAttribute('data-result')) ?? '') as CspPageResult;
    } finally {
      await server.close();
    }
  }

  function expectEverything({ error, echoes, events }: CspPageResult): void {
    expect(error).toBeUndefined();
    expect(echoes).toEqual(TEXTS);
    const words = events
      .split('\n\n')
      .filter((event) => event.startsWith('data: {'))
      .map((event) => JSON.parse(event.slice('data: '.length)).choices[0]?.delta?.content ?? '');
    expect(words.length).toBeGreaterThan(5);
    expect(words.join('')).toBe(
      answerTo({ model: 'page', messages: [{ role: 'user', content: TEXTS.at(-1) ?? '' }] }),
    );
  }

  it('sends, receives and streams with WebAssembly', async () => {
    const result = await visit(WITH_WASM);
    expect(result.isWebAssemblyBlocked).toBe(false);
    expectEverything(result);
  });

  it('sends, receives and streams without WebAssembly', async () => {
    const result = await visit(STRICT);
    expect(result.isWebAssemblyBlocked).toBe(true);
    expectEverything(result);
  });
});
