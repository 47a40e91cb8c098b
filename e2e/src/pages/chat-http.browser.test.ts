import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startChatPage } from '../../../examples/demo/serve-chat.js';
import { answerText, ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';
import { type Serving, startServing } from '../kit/cli-process.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';

/** The chat page in a network that forbids WebSockets, and what is the same over both transports, in a real browser. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of the chat page over HTTP: ${missing}`);
}

const LONG = 'How does an answer survive a lost connection?';

/** WebSockets that a network refuses. */
const BLOCKED = `globalThis.WebSocket = class extends EventTarget {
  binaryType = 'blob';
  constructor() {
    super();
    setTimeout(() => {
      this.dispatchEvent(new Event('error'));
      this.dispatchEvent(new CloseEvent('close', { code: 1006 }));
    });
  }
  send() {}
  close() {}
};`;

describe.skipIf(missing !== undefined)('the chat page of parlance serve', () => {
  const pages = ChatPages.use();
  let serving: Serving;
  let proxy: CuttingProxy;

  beforeAll(async () => {
    serving = await startServing([]);
    proxy = await createCuttingProxy(Number(new URL(serving.url).port));
  });
  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]();
    await serving?.stop();
  });

  const statusOf = (page: Page) => expect.poll(() => page.locator('#status').textContent());
  const begun = (page: Page) => expect.poll(async () => (await answerText(page)).length).toBeGreaterThan(40);

  it('streams, stops, survives a cut and a reload, and says how it is connected', async () => {
    const { page } = await pages.visit('about:blank');
    await page.addInitScript(BLOCKED);
    await page.goto(`http://127.0.0.1:${proxy.port}/`);
    await state(page, 'connected');
    await statusOf(page).toBe('Live over HTTP');

    await ask(page, LONG);
    await finished(page, 1);
    const whole = await answerText(page);
    expect(whole.length).toBeGreaterThan(500);
    expect(await page.locator('#compared').textContent()).toContain('over which it comes');

    await ask(page, LONG);
    await begun(page);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.locator('.answer[data-state="stopped"]').waitFor();
    expect((await answerText(page)).length).toBeLessThan(whole.length);

    await ask(page, LONG);
    await begun(page);
    proxy.cut();
    await finished(page, 2);
    await statusOf(page).toMatch(/^(?:Back|Live over HTTP)$/);
    expect((await answerText(page)).length).toBeGreaterThan(500);

    await ask(page, LONG);
    await begun(page);
    await page.reload();
    await finished(page, 3);
    expect((await answerText(page)).length).toBeGreaterThan(500);
    await statusOf(page).toBe('Live over HTTP');
  });

  it('has the browser complain of nothing when the server closes the session', async () => {
    const demo = await startChatPage({ port: 0 });
    pages.use({ [Symbol.asyncDispose]: () => demo.close() });
    const { page, complaints } = await pages.visit('about:blank');
    await page.addInitScript(BLOCKED);
    await page.goto(demo.url);
    await statusOf(page).toBe('Live over HTTP');
    for (const session of demo.sessions.sessions.values()) await session.close();
    await page.getByText('Connected again, in a new session').waitFor();
    expect(complaints).toEqual([]);
  });

  it('uses a WebSocket where it can', async () => {
    const { page, complaints } = await pages.visit(`http://127.0.0.1:${proxy.port}/`);
    await state(page, 'connected');
    await statusOf(page).toBe('Live');
    expect(complaints).toEqual([]);
  });

  describe.each(['a WebSocket', 'HTTP'])('over %s', (transport) => {
    async function reading(url = `http://127.0.0.1:${proxy.port}/`): Promise<Page> {
      const { page } = await pages.visit('about:blank');
      if (transport === 'HTTP') await page.addInitScript(BLOCKED);
      await page.goto(url);
      await state(page, 'connected');
      await statusOf(page).toBe(transport === 'HTTP' ? 'Live over HTTP' : 'Live');
      return page;
    }

    it('“Show me” loses the connection and nothing else of the page, and the answer is whole', async () => {
      const page = await reading();
      await page.evaluate(() => Object.assign(window, { given: [fetch, WebSocket] }));
      await page.locator('#break > summary').click();
      await page.locator('#show-me').click();
      await state(page, 'suspended');
      const seen = await page.evaluate(async () => {
        const [givenFetch, GivenSocket] = (window as unknown as { given: unknown[] }).given;
        const isSame = fetch === givenFetch && WebSocket === GivenSocket;
        return { isSame, status: (await fetch('/')).status, state: document.body.dataset['state'] };
      });
      expect(seen).toEqual({ isSame: true, status: 200, state: 'suspended' });
      await finished(page, 1);
      await page.getByText(/^connection lost for [\d.]+\ss.* · nothing missing$/).waitFor();
      await expect.poll(() => page.locator('#break-told').textContent()).toMatch(/^Back\./);
    });

    it('says that the browser is offline, and continues as soon as it is not', async () => {
      const page = await reading();
      await ask(page, LONG);
      await begun(page);
      await page.context().setOffline(true);
      await statusOf(page).toBe('This browser is offline');
      await page.context().setOffline(false);
      await statusOf(page).toMatch(/^(?:Back|Live)/);
      await finished(page, 1);
      await expect.poll(() => page.locator('#notice').isVisible()).toBe(false);
    });

    it('is cut, and moved to another server, by the buttons of the demo', async () => {
      const demo = await startChatPage({ port: 0, absenceMs: 1_000 });
      pages.use({ [Symbol.asyncDispose]: () => demo.close() });
      const page = await reading(demo.url);
      await ask(page, LONG);
      await begun(page);
      await page.locator('[data-break="cut"]').click();
      await state(page, 'suspended');
      await finished(page, 1);
      await page.getByText(/^connection lost for [\d.]+\ss.* · nothing missing$/).waitFor();

      const ids = [...demo.sessions.sessions.keys()];
      await ask(page, LONG);
      await begun(page);
      await page.locator('[data-break="restart"]').click();
      await finished(page, 2);
      await page.getByText(/^moved to another connection in [\d.]+\ss.* · nothing missing$/).waitFor();
      expect(await page.locator('.mark').count()).toBe(2);
      await expect.poll(() => [...demo.sessions.sessions.keys()]).toEqual(ids);
    });
  });
});
