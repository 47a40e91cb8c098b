import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerText, ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';
import { type Serving, startServing } from '../kit/cli-process.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';

/** The chat page of `parlance serve` in a network that forbids WebSockets, in a real browser. */

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

  it('uses a WebSocket where it can', async () => {
    const { page, complaints } = await pages.visit(`http://127.0.0.1:${proxy.port}/`);
    await state(page, 'connected');
    await statusOf(page).toBe('Live');
    expect(complaints).toEqual([]);
  });
});
