import { createServer } from '@parlance/server';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { type ChatRequest, completionReply } from '../../../examples/demo/chat-completion.js';
import { createTurn, type Turn } from '../../../packages/ui/src/chat/conversation.js';
import { createPack, NOTHING_OMITTED } from '../../../packages/ui/src/chat/stored.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { answerText, ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing, serveFiles } from '../kit/chat-page.js';

/** A long chat that is loaded again, and Markdown whose attributes carry its meaning. */

describe.skipIf(chromiumMissing() !== undefined)('the chat page', () => {
  const pages = ChatPages.use();

  const turnOf = (question: string, i: number): Turn => ({
    ...createTurn(question),
    answer: `answer ${i}`,
    end: 'stop',
    state: 'done',
    reply: undefined,
    traffic: {
      sent: { socket: 100, http: 40 * i, gzip: 20 * i },
      received: { socket: 50, http: 900, gzip: 400 },
      parts: 9,
      ms: 1_000,
    },
  });

  /** Loads the page again as if it had held this conversation. */
  async function seed(page: Page, turns: readonly Turn[]): Promise<void> {
    await page.evaluate(
      (text) => {
        sessionStorage.setItem('parlance-chat', text);
        // Without what the page writes when it is left.
        const { setItem } = Storage.prototype;
        Storage.prototype.setItem = function (this: Storage, key: string, value: string) {
          if (key !== 'parlance-chat') setItem.call(this, key, value);
        };
      },
      createPack()(turns, NOTHING_OMITTED, Infinity),
    );
    await page.reload();
    await state(page, 'connected');
  }

  async function open(answer: string) {
    const files = pages.use(await serveFiles(BUILT_PAGES));
    const requests: ChatRequest[] = [];
    const server = createServer({
      onRequest(request, context) {
        requests.push(request.json<ChatRequest>());
        return completionReply(request.json<ChatRequest>(), [answer], context);
      },
    });
    server.attach(files.http);
    pages.use(server);
    const { page } = await pages.visit(`${files.origin}/`);
    await state(page, 'connected');
    return { page, requests };
  }

  it('that is loaded again after 151 turns gives the model all of them, and its figures stay', async () => {
    const { page, requests } = await open('The answer.');
    await seed(
      page,
      Array.from({ length: 150 }, (_, i) => turnOf(`question ${i}`, i)),
    );
    expect(await page.locator('article').count()).toBe(150);
    await ask(page, 'question 150');
    await finished(page, 151);
    expect(requests.at(-1)?.messages).toHaveLength(301);
    const figures = () =>
      page.locator('#table td').evaluateAll((cells) => cells.map((cell) => cell.textContent));
    // The table is built when it is opened.
    expect(await figures()).toEqual([]);
    await page.getByText('Turn by turn').click();
    await expect.poll(async () => (await figures()).length).toBe(4 * 152);
    const before = await figures();
    await page.reload();
    await state(page, 'connected');
    await page.getByText('Turn by turn').click();
    expect(await page.locator('article').count()).toBe(151);
    await expect.poll(figures).toEqual(before);
    await ask(page, 'question 151');
    await finished(page, 152);
    expect(requests.at(-1)?.messages).toHaveLength(303);
  });

  it('that keeps nothing says what its tab had no room for, and neither shows it nor sends it', async () => {
    const { page, requests } = await open('The answer.');
    await page.getByLabel('Keep chats in this browser').uncheck();
    // Longer texts than that find no room.
    await page.addInitScript((most) => {
      const { setItem } = Storage.prototype;
      Storage.prototype.setItem = function (this: Storage, key: string, value: string) {
        if (value.length > most) throw new DOMException('it is full', 'QuotaExceededError');
        setItem.call(this, key, value);
      };
    }, 15_000);
    await seed(
      page,
      [1, 2, 3].map((i) => turnOf(`${i} `.repeat(3_000), i)),
    );
    expect(await page.locator('article').count()).toBe(3);
    await page.locator('#compared b').first().waitFor();
    const difference = await page.locator('#compared').textContent();
    await page.reload();
    await state(page, 'connected');
    await page
      .getByText('1 earlier turn did not fit into the store of this tab · the model is not given it either')
      .waitFor();
    expect(await page.locator('article').count()).toBe(2);
    await expect.poll(() => page.locator('#compared').textContent()).toBe(difference);
    await page.getByText('Turn by turn').click();
    await expect.poll(() => page.locator('#table tbody th').allTextContents()).toEqual(['1', '2', '3']);
    await ask(page, 'And?');
    await finished(page, 3);
    const { messages } = requests.at(-1) ?? expect.fail('it was asked');
    expect(messages.filter(({ role }) => role === 'user').map(({ content }) => content.slice(0, 1))).toEqual([
      '2',
      '3',
      'A',
    ]);
    await page.getByRole('button', { name: 'New chat' }).click();
    await page.reload();
    await state(page, 'connected');
    expect(await page.getByText('did not fit').count()).toBe(0);
  });

  it('keeps the number of a list, the boxes of tasks and the alignment of columns', async () => {
    const { page } = await open(
      '1. one\n2. two\n\n```\ncode\n```\n\n3. three\n\n- [x] done\n- [ ] open\n\n| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |\n',
    );
    await ask(page, 'Lists?');
    await finished(page, 1);
    const answer = page.locator('answer-text');
    expect(
      await answer
        .locator('ol')
        .evaluateAll((lists) => lists.map((list) => (list as HTMLOListElement).start)),
    ).toEqual([1, 3]);
    expect(await answer.locator('ul li').allTextContents()).toEqual(['☑ done', '☐ open']);
    expect(
      await answer
        .locator('td')
        .evaluateAll((cells) => cells.map((cell) => getComputedStyle(cell).textAlign)),
    ).toEqual([expect.stringMatching(/left|start/), 'center', expect.stringMatching(/right|end/)]);
    expect(await answerText(page)).toContain('3. three');
  });
});
