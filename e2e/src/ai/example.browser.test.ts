import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { startChild } from '../../../scripts/child-process.js';
import { chromiumMissing, launchChromium } from '../../../scripts/chromium.js';
import { openPage } from '../chat-page.js';
import { startOpenAIUpstream } from '../openai-upstream.js';

/** examples/ai-sdk as it is, but for its port, which others may use. */

const missing = chromiumMissing();
if (missing !== undefined && process.env['CI'] === 'true') throw new Error(missing);

const EXAMPLE = fileURLToPath(new URL('../../../examples/ai-sdk', import.meta.url));
/** Packages are found from here. */
const COPY = join(EXAMPLE, 'node_modules/.copy');
const PORT = '8767';

describe.skipIf(missing !== undefined)('the example for the AI SDK', () => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  let port: number;

  beforeAll(async () => {
    port = await freePort();
    mkdirSync(COPY, { recursive: true });
    for (const name of ['server.mjs', 'page.jsx']) {
      const text = readFileSync(join(EXAMPLE, name), 'utf8');
      expect(text.split(PORT)).toHaveLength(2);
      writeFileSync(join(COPY, name), text.replace(PORT, String(port)));
    }
    bundle = await bundleFile(join(COPY, 'page.jsx'), { fromSource: true });
    files = await serveCompressed(bundle.folder);
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
    rmSync(COPY, { recursive: true, force: true });
  });

  it('has 30 lines', () => {
    const lines = ['server.mjs', 'page.jsx'].flatMap((name) =>
      readFileSync(join(EXAMPLE, name), 'utf8').trimEnd().split('\n'),
    );
    expect(lines.filter((line) => line !== '').length).toBeLessThanOrEqual(30);
  });

  it('answers, and shows the answer', async () => {
    await using upstream = await startOpenAIUpstream();
    const env = { OPENAI_BASE_URL: upstream.baseUrl, OPENAI_API_KEY: 'key', PAGE: files.origin };
    const flags = ['--import', 'tsx', '--conditions=@parlance/source'];
    const server = startChild(new URL(`file://${COPY}/server.mjs`), [], flags, { env });
    try {
      await expect.poll(() => isListening(port)).toBe(true);
      await using opened = await openPage(browser, files.origin);
      const field = opened.page.locator('input');
      await field.waitFor();
      await field.fill('Why do tokens travel?');
      await field.press('Enter');
      const paragraphs = opened.page.locator('p');
      await expect
        .poll(() => paragraphs.allTextContents())
        .toEqual(['Why do tokens travel?', expect.stringMatching(/^Tokens travel — .*data: like lines\.$/s)]);
      expect(upstream.requests[0]?.headers.authorization).toBe('Bearer key');
    } finally {
      await server.kill();
    }
  });
});

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTcp(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false)).once('connect', () => socket.destroy());
  });
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}
