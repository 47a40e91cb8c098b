import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { ask, ChatPages, finished } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';
import { Stage } from './chat-stage.js';

/** The bytes that the chat page shows, beside those that have passed through a proxy. */

describe.skipIf(chromiumMissing() !== undefined)('the chat page', () => {
  const pages = ChatPages.use();

  it('counts what is on the wire, the headers of frames included', async () => {
    const { page, proxy, model } = await Stage.open(pages, {});
    for (let i = 0; i < 40; i++) model.say({ content: `word ${i} ` });
    model.end();
    await page.locator('#by-turn').evaluate((details) => details.setAttribute('open', ''));
    const cell = page.locator('#table tfoot td').first();
    const shown = async () => Number(await cell.getAttribute('data-bytes')) + (await overheadOf(page));
    const counts = [];
    for (let turn = 1; turn <= 3; turn++) {
      // Headers of frames have three sizes; these questions need the second one.
      await ask(page, Array.from({ length: 200 }, (_, i) => `${i * 7919 * turn}`).join(' '));
      await finished(page, turn);
      await quiet(() => proxy.bytes.fromServer + proxy.bytes.fromClient);
      counts.push({ shown: await shown(), passed: proxy.bytes.fromClient + proxy.bytes.fromServer });
    }
    const [first, , last] = counts;
    const grown = (name: 'shown' | 'passed') => (last?.[name] ?? 0) - (first?.[name] ?? 0);
    // An acknowledgement may arrive after the page was painted.
    expect(Math.abs(grown('shown') - grown('passed')), JSON.stringify(counts)).toBeLessThan(32);
    expect(grown('passed')).toBeGreaterThan(1_000);
  });
});

async function overheadOf(page: Page): Promise<number> {
  const text = (await page.locator('#overhead').textContent()) ?? '';
  return Number(/([\d,]+)\sB/.exec(text)?.[1]?.replace(',', '') ?? 0);
}

/** Waits until nothing passes any more. */
async function quiet(count: () => number): Promise<void> {
  for (let before = -1; before !== count(); await new Promise((resolve) => setTimeout(resolve, 500)))
    before = count();
}
