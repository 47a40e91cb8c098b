import { fileURLToPath } from 'node:url';
import { cluster, createServer, durable, memoryCluster, type Server } from '@parlance/server';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { CHROMIUM, chromiumMissing } from '../../../scripts/chromium.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';

/** A real page with a durable session that is loaded again, at a server that stays and at the next one. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the test of a page with a durable session: ${missing}`);
}

const PARTS = 40;

describe.skipIf(missing !== undefined)('a page with a durable session', () => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  let servers: Pick<Server, 'close'>[];
  let front: CuttingProxy;
  let port: number;
  let engine: ReturnType<typeof memoryCluster>;

  beforeAll(async () => {
    const page = fileURLToPath(new URL('../resume/reload-page.ts', import.meta.url));
    bundle = await bundleFile(page, { fromSource: true });
    files = await serveCompressed(bundle.folder);
    browser = await chromium.launch(CHROMIUM);
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    servers = [];
    engine = memoryCluster();
    front = await createCuttingProxy(() => port);
    await serve();
  });
  afterEach(async () => {
    await front[Symbol.asyncDispose]();
    for (const server of servers) await server.close();
  });

  async function serve(): Promise<void> {
    const server = createServer<number>({
      origins: [files.origin],
      engine,
      features: [cluster(), durable(true, { allowVolatileEngine: true })],
      authenticate: () => ({ principal: 'ann', data: 0 }),
      async onSession(session) {
        for await (const { text } of session) {
          const state = session.data + 1;
          await session.commit({ data: state, send: [`${state}: ${text}`] });
        }
      },
      async *onRequest(request, { keep }) {
        keep({ name: request.text });
        for (let i = 0; i < PARTS; i++) {
          yield `${i} `;
          await new Promise((resolve) => setTimeout(resolve, 25));
        }
      },
    });
    servers.push(server);
    ({ port } = await server.listen());
  }

  const stateOf = (page: Page) => page.evaluate(() => window.test.state);
  const established = async (page: Page) => {
    await expect.poll(async () => (await stateOf(page)).state).toBe('established');
    return await stateOf(page);
  };
  async function open(): Promise<Page> {
    const page = await (await browser.newContext()).newPage();
    await page.goto(
      `${files.origin}/?${new URLSearchParams({ server: `ws://127.0.0.1:${front.port}/session` })}`,
    );
    return page;
  }
  const say = (page: Page, text: string) =>
    page.evaluate(async (said) => await window.test.session?.send(said), text);

  it('continues with it when it is loaded again, at the server that has it and at the next one', async () => {
    const page = await open();
    const { id } = await established(page);
    await say(page, 'one');
    await expect.poll(async () => (await stateOf(page)).texts).toEqual(['1: one']);

    await page.reload();
    expect(await established(page)).toMatchObject({ id, isRebuilt: true, texts: [] });
    await say(page, 'two');
    await expect.poll(async () => (await stateOf(page)).texts).toEqual(['2: two']);

    await servers[0]?.close();
    await serve();
    await page.reload();
    expect(await established(page)).toMatchObject({ id, isRebuilt: true, texts: [] });
    await say(page, 'three');
    await expect.poll(async () => (await stateOf(page)).texts).toEqual(['3: three']);
  });

  it('follows a kept reply that was under way', async () => {
    const page = await open();
    const { id } = await established(page);
    await page.evaluate(() => window.test.ask('story'));
    const kept = () => page.evaluate(async () => await window.test.session?.replies());
    await expect.poll(async () => (await kept())?.length).toBe(1);
    await page.reload();
    expect(await established(page)).toMatchObject({ id, isRebuilt: true });
    const told = await page.evaluate(async () => {
      let text = '';
      for await (const part of window.test.session?.follow('story') ?? []) text += part.text;
      return text;
    });
    expect(told).toBe(Array.from({ length: PARTS }, (_, i) => `${i} `).join(''));
  });
});
