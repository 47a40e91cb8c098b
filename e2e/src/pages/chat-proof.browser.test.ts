import type { Part, RequestHandler } from '@parlance/protocol';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { CHAT_OPTIONS } from '../../../examples/demo/chat-options.js';
import { withSum } from '../../../examples/demo/responder.js';
import { startChatPage } from '../../../examples/demo/serve-chat.js';
import { Stage } from '../field/chat-stage.js';
import { ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';
import { startServing } from '../kit/cli-process.js';

/** What the chat page says of the pieces of an answer, beside what its server says that it has written. */

const missing = chromiumMissing();
/** Three of the model, the reason of the end, and `[DONE]`. */
const CHUNKS = 5;

describe.skipIf(missing !== undefined)('the proof below an answer', () => {
  const pages = ChatPages.use();
  const stage = (handler: (onRequest: RequestHandler) => RequestHandler, isPlain = false) =>
    Stage.open(pages, {
      serve: ({ onRequest }) => ({
        ...CHAT_OPTIONS,
        onRequest: handler(onRequest),
        ...(isPlain && { algorithms: ['NONE'], limits: { contextBytes: 1 } }),
      }),
    });

  /** Asks, has the model say three pieces and end, and opens the card. */
  async function answered({ model, page }: Stage): Promise<string> {
    model.say({ content: 'First words, ' }).say({ content: 'then more, ' });
    await ask(page, 'Hello?');
    model.end();
    await finished(page, 1);
    return await openCard(page);
  }

  it('says that each piece has come once, after a cut and a page that was loaded again', async () => {
    const opened = await stage(withSum);
    const { model, page, proxy } = opened;
    await opened.reading();
    await page.addInitScript(() => {
      const seen = new Set<string>();
      const look = () => {
        for (const { textContent } of document.querySelectorAll('.proof, #pieces-title'))
          seen.add(textContent ?? '');
      };
      new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
      Object.assign(window, { said: () => [...seen] });
    });
    proxy.cut();
    await state(page, 'suspended');
    await state(page, 'connected');
    model.say({ content: 'then more, ' });
    await expect.poll(() => page.locator('answer-text').textContent()).toContain('then more');
    await page.reload();
    await state(page, 'connected');
    model.end();
    await finished(page, 1);
    const card = await openCard(page);
    // As long as the server is asked, nothing is said that its answer may belie.
    const said = await page.evaluate(() => (window as unknown as { said(): string[] }).said());
    expect(said.filter((text) => /not checked/i.test(text))).toEqual([]);
    expect(said).toContain('This answer');
    expect(await chip(page)).toBe(`✓ Complete: ${CHUNKS} of ${CHUNKS} pieces, each once`);
    expect(card).toContain('All that the server wrote has come, in order, each piece once.');
    expect(card).toMatch(/SHA-256[0-9a-f]{8}…[0-9a-f]{8} at the server and here/);
    expect(card).toMatch(/connection lost, .*page loaded again, /);
    expect(model.asked).toBe(1);
    // It is stored with the answer.
    await page.reload();
    await state(page, 'connected');
    expect(await chip(page)).toBe(`✓ Complete: ${CHUNKS} of ${CHUNKS} pieces, each once`);
  });

  it('says so if a piece was changed on its way', async () => {
    // Codecs would notice it, or make something else of it.
    const opened = await stage(withSum, true);
    opened.proxy.falsify('First words', 'Worst words');
    const card = await answered(opened);
    expect(await opened.page.locator('answer-text').textContent()).toContain('Worst words');
    expect(await chip(opened.page)).toBe(`✗ ${CHUNKS} pieces, not as they were written`);
    expect(card).toContain('at least one of them is not as it was written');
    expect(card).toMatch(/[0-9a-f]{8} at the server · [0-9a-f]{8}…[0-9a-f]{8} here/);
  });

  it('says so if a piece is missing, and if one has come twice', async () => {
    const lossy = await stage((onRequest) => passing(onRequest, (part, i) => (i === 1 ? [] : [part])));
    const card = await answered(lossy);
    expect(await chip(lossy.page)).toBe(`✗ Not complete: 1 piece of ${CHUNKS} missing`);
    expect(card).toContain('1 piece that the server wrote has not come.');
    const doubling = await stage((onRequest) =>
      passing(onRequest, (part, i) => (i === 1 ? [part, part] : [part])),
    );
    await answered(doubling);
    expect(await chip(doubling.page)).toBe(`✗ ${CHUNKS + 1} pieces, but ${CHUNKS} were written`);
  });

  it('says what is not known, if the server says nothing of what it has written', async () => {
    const silent = await stage((onRequest) => onRequest);
    const card = await answered(silent);
    expect(await chip(silent.page)).toBe(`${CHUNKS} pieces, not checked`);
    expect(card).toContain('it is not known whether anything is missing');
    expect(card).toContain('not known at the server');
  });

  it('holds when the session moves to another node in mid-answer', async () => {
    const site = await startChatPage({ port: 0, delayMs: 10 });
    pages.use({ [Symbol.asyncDispose]: site.close });
    const { page } = await pages.visit(site.url);
    await state(page, 'connected');
    await ask(page, 'Write a debounce function in TypeScript.');
    await page.locator('answer-text pre').first().waitFor();
    await page.locator('[data-break="restart"]').click();
    await finished(page, 1);
    await expect.poll(() => chip(page)).toMatch(/^✓ Complete: (\d+) of \1 pieces, each once$/);
  });

  it('is shown by one button, which cuts, waits and comes back by itself, at any server', async () => {
    const serving = await startServing();
    pages.use({ [Symbol.asyncDispose]: async () => void (await serving.stop()) });
    const { page } = await pages.visit(serving.url.replace(/^ws/, 'http').replace('/session', '/'));
    await state(page, 'connected');
    const button = page.locator('#show-me');
    // It is folded where people have come to ask something.
    expect(await button.isVisible()).toBe(false);
    await page.getByText('Break it').click();
    await button.click();
    await state(page, 'suspended');
    await page
      .locator('#light-rest', {
        hasText: /(?:next try in \d+\ss|trying now) · session kept up to [12]:\d\d$/,
      })
      .waitFor();
    await state(page, 'connected');
    await page.locator('#status', { hasText: 'Back' }).waitFor();
    await page.getByText('Back. The mark in the answer shows where it was cut').waitFor();
    await finished(page, 1);
    await expect.poll(() => chip(page)).toMatch(/^✓ Complete: (\d+) of \1 pieces, each once$/);
    await expect
      .poll(async () => spaced(await page.locator('#pieces-told').textContent()))
      .toMatch(/^In this chat: connection lost once \([\d.]+ s\); no piece missing, changed or twice\.$/);
    expect(await page.evaluate(isTitleCovered)).toEqual({ ltr: false, rtl: false });
    await page.getByRole('button', { name: 'Close the panel' }).click();
    expect(await page.locator('#panel').isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Session', exact: true }).click();
    expect(await page.locator('#panel').isVisible()).toBe(true);
  });
});

/** Runs in the page: whether the button of the panel covers its title, in each direction of the page. */
function isTitleCovered(): Record<string, boolean> {
  const root = document.documentElement;
  const text = document.createRange();
  const covers = ['ltr', 'rtl'].map((dir) => {
    root.dir = dir;
    text.selectNodeContents(document.querySelector('#pieces-title') as Element);
    const title = text.getBoundingClientRect();
    const button = (document.querySelector('#panel-close') as Element).getBoundingClientRect();
    return [dir, button.left < title.right && button.right > title.left] as const;
  });
  root.dir = 'ltr';
  return Object.fromEntries(covers);
}

/** Has something go wrong behind the sum of a handler. */
function passing(onRequest: RequestHandler, each: (part: Part, index: number) => Part[]): RequestHandler {
  return async function* (request, context) {
    let i = 0;
    for await (const part of withSum(onRequest)(request, context) as AsyncIterable<Part>)
      yield* each(part, i++);
  };
}

async function chip(page: Page): Promise<string> {
  return spaced(await page.locator('.proof').last().textContent());
}

/** With plain blanks. */
function spaced(text: string | null): string {
  return (text ?? '').replaceAll('\u00a0', ' ');
}

async function openCard(page: Page): Promise<string> {
  await page.locator('.proof:not(:empty)').last().click();
  const card = page.locator('.card').last();
  await card.locator('dl').waitFor();
  // The server may be asked first.
  await page.waitForFunction(() => document.querySelector('.card')?.getAttribute('data-verdict') !== null);
  return spaced(await card.textContent());
}
