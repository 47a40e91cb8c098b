import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { convertToModelMessages, streamText, type UIMessage } from 'ai';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { startChild } from '../../../scripts/child-process.js';
import { chromiumMissing, launchChromium } from '../../../scripts/chromium.js';
import { openPage } from '../kit/chat-page.js';
import { freePort } from '../kit/cli-process.js';
import { startOpenAIUpstream } from '../kit/openai-upstream.js';

/** examples/ai-sdk as it is, but for its port, which others may use; and as it was with the default transport. */

const missing = chromiumMissing();
if (missing !== undefined && process.env['CI'] === 'true') throw new Error(missing);

const EXAMPLE = fileURLToPath(new URL('../../../examples/ai-sdk', import.meta.url));
/** Packages are found from here. */
const COPY = join(EXAMPLE, 'node_modules/.copy');
const PORT = '8767';
const HTTP_PORT = '8768';
const PAGE = readFileSync(join(EXAMPLE, 'page.jsx'), 'utf8');

/** The lines of the diff of docs/AI-SDK.md: the sign, and the rest. */
function readDiff(): readonly (readonly [sign: string, line: string])[] {
  const document = readFileSync(join(EXAMPLE, '../../docs/AI-SDK.md'), 'utf8');
  const diff = document.split('```').find((each) => each.startsWith('diff\n')) ?? expect.fail('no diff');
  const lines = diff.trimEnd().split('\n').slice(1);
  return lines.map((line) => [line.slice(0, 1), line.slice(1)] as const);
}

/** The page before the diff was applied to it. */
function pageBefore(): string {
  const diff = readDiff();
  const without = (sign: string) =>
    `${diff.flatMap(([own, line]) => (own === sign ? [] : [line])).join('\n')}\n`;
  expect(PAGE.startsWith(without('-'))).toBe(true);
  return without('+') + PAGE.slice(without('-').length);
}

describe.skipIf(missing !== undefined)('the example for the AI SDK', () => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  let port: number;

  beforeAll(async () => {
    port = Number(await freePort());
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
      await asksAndReads(browser, files.origin);
      expect(upstream.requests[0]?.headers.authorization).toBe('Bearer key');
    } finally {
      await server.kill();
    }
  });

  it('is three lines and the imports away from the same page with the default transport', async () => {
    const changed = (sign: string) =>
      readDiff().flatMap(([own, line]) => (own === sign && !line.startsWith('import ') ? [line] : []));
    expect([changed('-').length, changed('+').length]).toEqual([2, 3]);

    await using upstream = await startOpenAIUpstream();
    const model = createOpenAICompatible({ name: 'openai', baseURL: upstream.baseUrl })('gpt-4o');
    const http = createHttpServer(async (request, response) => {
      response.setHeader('access-control-allow-origin', '*');
      response.setHeader('access-control-allow-headers', '*');
      if (request.method !== 'POST') {
        response.writeHead(204).end();
        return;
      }
      const { messages } = (await json(request)) as { messages: UIMessage[] };
      streamText({ model, messages: await convertToModelMessages(messages) }).pipeUIMessageStreamToResponse(
        response,
      );
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    try {
      const { port: httpPort } = http.address() as AddressInfo;
      const before = pageBefore();
      expect(before.split(HTTP_PORT)).toHaveLength(2);
      writeFileSync(join(COPY, 'before.jsx'), before.replace(HTTP_PORT, String(httpPort)));
      await using built = await bundleFile(join(COPY, 'before.jsx'), { fromSource: true });
      await using served = await serveCompressed(built.folder);
      await asksAndReads(browser, served.origin);
    } finally {
      http.close();
      http.closeAllConnections();
    }
  });
});

async function asksAndReads(browser: Browser, origin: string): Promise<void> {
  await using opened = await openPage(browser, origin);
  const field = opened.page.locator('input');
  await field.waitFor();
  await field.fill('Why do tokens travel?');
  await field.press('Enter');
  const paragraphs = opened.page.locator('p');
  await expect
    .poll(() => paragraphs.allTextContents())
    .toEqual(['Why do tokens travel?', expect.stringMatching(/^Tokens travel — .*data: like lines\.$/s)]);
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTcp(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false)).once('connect', () => socket.destroy());
  });
}
