import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer, type Server } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startChatPage } from '../../../examples/demo/serve-chat.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { chromiumMissing, launchChromium, openPage } from '../kit/chat-page.js';
import { look } from '../kit/looking.js';

/** Each state of the chat page, in each scheme and width, and as assistive technology sees it. */

describe.skipIf(chromiumMissing() !== undefined)('the chat page has no fault that axe finds', () => {
  let browser: Browser;
  const open: AsyncDisposable[] = [];

  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
  });
  afterAll(() => browser?.close());

  async function visit(url: string): Promise<Page> {
    const opened = await openPage(browser, url, { viewport: { width: 1440, height: 900 } });
    open.push(opened);
    return opened.page;
  }

  const state = (page: Page, name: string) => page.locator(`body[data-state="${name}"]`).waitFor();

  async function ask(page: Page, question: string): Promise<void> {
    await page.getByLabel('Your message').fill(question);
    await page.keyboard.press('Enter');
  }

  /** The page as a server shows it that is not the demo. */
  async function serve(options: Parameters<typeof createServer>[0]): Promise<string> {
    const http = createHttpServer();
    const page = createUserInterface({ folder: BUILT_PAGES });
    http.on('request', (request, response) => {
      if (!page(request, response)) response.writeHead(404).end();
    });
    const server: Server = createServer(options);
    server.attach(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    open.push({
      async [Symbol.asyncDispose]() {
        await server.close();
        http.closeAllConnections();
        await new Promise((resolve) => http.close(resolve));
      },
    });
    return `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
  }

  it('by keyboard: the box is six stops at most behind the choice of a model', async () => {
    const demo = await startChatPage({ port: 0, delayMs: 0 });
    open.push({ [Symbol.asyncDispose]: () => demo.close() });
    const page = await visit(demo.url);
    await state(page, 'connected');
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await page.locator('#model-open').focus();
      const stops: string[] = [];
      for (let i = 0; i < 6 && stops.at(-1) !== 'question'; i++) {
        await page.keyboard.press('Tab');
        stops.push(await page.evaluate(() => document.activeElement?.id ?? ''));
      }
      expect([width, ...stops].at(-1)).toBe('question');
    }
  });

  it('before a question, while it answers, when it is cut off, and after that', async () => {
    const demo = await startChatPage({ port: 0, delayMs: 20, absenceMs: 6_000 });
    open.push({ [Symbol.asyncDispose]: () => demo.close() });
    const page = await visit(demo.url);
    await state(page, 'connected');
    await look(page, 'chat-empty');
    await ask(page, 'Write a debounce function in TypeScript.');
    await page.locator('answer-text pre').first().waitFor();
    await page.locator('[data-break="cut"]').click();
    await state(page, 'suspended');
    await look(page, 'chat-suspended');
    await state(page, 'connected');
    await page.getByRole('button', { name: 'Ask again' }).waitFor();
    await look(page, 'chat-answered');
  });

  it('when the server asks for a token, and refuses one', async () => {
    const url = await serve({ authenticate: () => null });
    const page = await visit(url);
    await state(page, 'refused');
    await page.getByRole('heading', { name: 'This server asks for a token' }).waitFor();
    await look(page, 'chat-token');
    for (const width of [390, 360, 320]) {
      await page.setViewportSize({ width, height: 700 });
      const cut = await page.locator('#status').evaluate((each) => each.scrollWidth - each.clientWidth);
      expect(`${cut} px of the state cut at ${width} px`).toBe(`0 px of the state cut at ${width} px`);
    }
  });

  it('when they have no codec in common, and when an answer fails', async () => {
    // This page carries no Brotli, which M2M needs.
    const second = await visit(await serve({ algorithms: ['M2M'] }));
    await state(second, 'refused');
    await look(second, 'chat-refused');
    const page = await visit(
      await serve({
        onRequest() {
          throw new Error('as asked');
        },
        onError() {},
      }),
    );
    await state(page, 'connected');
    await ask(page, 'A question');
    await page.getByRole('button', { name: 'Ask again' }).waitFor();
    await look(page, 'chat-failed');
  });

  it('when its policy keeps it from another server', async () => {
    const url = await serve({});
    const page = await visit(`${url}?server=ws://127.0.0.1:9/session`);
    await state(page, 'refused');
    await page.getByText('This page may not connect there').waitFor();
    await look(page, 'chat-blocked');
  });
});
