import { readFile } from 'node:fs/promises';
import { createServer } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { type ChatRequest, completionReply } from '../../../examples/demo/chat-completion.js';
import { CHAT_OPTIONS } from '../../../examples/demo/chat-options.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { answerTexts, ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';

/** Chats outlive their tabs, have versions, and are the same in all tabs. */

describe.skipIf(chromiumMissing() !== undefined)('the chats of a browser', () => {
  const pages = ChatPages.use();

  /** @param edit see `createUserInterface`. */
  async function host(edit?: (html: string) => string) {
    const requests: ChatRequest[] = [];
    const server = pages.use(
      createServer({
        ...CHAT_OPTIONS,
        onRequest(request, context) {
          const asked = request.json<ChatRequest>();
          requests.push(asked);
          const { content } = asked.messages.at(-1) ?? expect.fail('a question');
          return completionReply(asked, [`Answer ${requests.length} to `, content], context);
        },
      }),
    );
    const { port } = await server.listen({ respond: createUserInterface({ folder: BUILT_PAGES, edit }) });
    const url = `http://127.0.0.1:${port}/`;
    const { page, complaints } = await pages.visit(url);
    await state(page, 'connected');
    return { url, page, complaints, requests };
  }

  const titles = (page: Page) => page.locator('#chat-list .open').allTextContents();
  const questions = (page: Page) => page.locator('.question .text').allTextContents();

  async function another(page: Page, url: string): Promise<Page> {
    const tab = await page.context().newPage();
    await tab.goto(url);
    await state(tab, 'connected');
    return tab;
  }

  async function more(page: Page, title: string, action: string): Promise<void> {
    await page.getByRole('button', { name: `More about “${title}”` }).click();
    await page.locator('#chat-menu').getByRole('button', { name: action, exact: true }).click();
  }

  /** Two chats, of which the second one is shown. */
  async function twoChats() {
    const opened = await host();
    const { page } = opened;
    await ask(page, 'one');
    await finished(page, 1);
    await ask(page, 'more of one');
    await finished(page, 2);
    await page.getByRole('button', { name: 'New chat' }).click();
    await ask(page, 'two');
    await finished(page, 1);
    await expect.poll(() => titles(page)).toEqual(['two', 'one']);
    return opened;
  }

  it('are listed, shown again, found by their words, and there after the tab has been closed', async () => {
    const { page, url, requests, complaints } = await twoChats();
    await page.getByRole('button', { name: 'one', exact: true }).click();
    await expect.poll(() => questions(page)).toEqual(['one', 'more of one']);
    await ask(page, 'and again');
    await finished(page, 3);
    expect(requests.at(-1)?.messages.map(({ content }) => content)).toEqual([
      'one',
      'Answer 1 to one',
      'more of one',
      'Answer 2 to more of one',
      'and again',
    ]);
    const later = await another(page, url);
    await page.close();
    await expect.poll(() => titles(later)).toEqual(['one', 'two']);
    expect(await later.locator('article').count()).toBe(0);
    await later.getByLabel('Search in chats').fill('ANSWER 2 TO');
    await expect.poll(() => titles(later)).toEqual(['one']);
    await later.getByLabel('Search in chats').fill('nowhere');
    await later.getByText('No chat has these words.').waitFor();
    await later.getByLabel('Search in chats').fill('');
    await later.getByRole('button', { name: 'one', exact: true }).click();
    await expect.poll(async () => (await answerTexts(later)).length).toBe(3);
    expect(complaints.join('\n')).toBe('');
  });

  it('can be renamed, deleted and brought back, one and all', async () => {
    const { page } = await twoChats();
    await more(page, 'one', 'Rename');
    await page.keyboard.type('The first');
    await page.keyboard.press('Enter');
    await expect.poll(() => titles(page)).toContain('The first');
    await page.reload();
    await state(page, 'connected');
    await expect.poll(() => titles(page)).toEqual(['two', 'The first']);

    await more(page, 'two', 'Delete');
    await expect.poll(() => titles(page)).toEqual(['The first']);
    expect(await page.locator('article').count()).toBe(0);
    await page.getByRole('button', { name: 'Undo' }).click();
    await expect.poll(() => titles(page)).toEqual(['two', 'The first']);
    await expect.poll(() => questions(page)).toEqual(['two']);

    await page.getByRole('button', { name: 'Delete all' }).click();
    await page.getByText('Your chats will be here.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await expect.poll(() => titles(page)).toEqual(['two', 'The first']);

    await page.getByRole('button', { name: 'Delete all' }).click();
    for (const when of ['at once', 'loaded again']) {
      await page.getByText('Your chats will be here.').waitFor();
      expect([when, await titles(page)]).toEqual([when, []]);
      if (when === 'at once') await page.reload();
      await state(page, 'connected');
    }
    expect(await page.locator('article').count()).toBe(0);
  });

  it('are exported as Markdown and as JSON', async () => {
    const { page } = await twoChats();
    const exported = async (action: string) => {
      const download = page.waitForEvent('download');
      await more(page, 'one', action);
      const file = await download;
      return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') };
    };
    const markdown = await exported('Export as Markdown');
    expect(markdown.name).toBe('one.md');
    expect(markdown.text).toContain('## You\n\nmore of one\n\n## Answer\n\nAnswer 2 to more of one\n');
    const json = await exported('Export as JSON');
    expect(json.name).toBe('one.json');
    expect(JSON.parse(json.text).turns).toMatchObject([{ question: 'one' }, { question: 'more of one' }]);
  });

  it('keep each version of a question and of an answer', async () => {
    const { page, requests } = await twoChats();
    await page.getByRole('button', { name: 'one', exact: true }).click();
    await expect.poll(() => questions(page)).toEqual(['one', 'more of one']);
    const first = page.locator('article').first();
    await first.hover();
    await first.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Your message').fill('uno');
    await page.keyboard.press('Enter');
    await finished(page, 1);
    expect(await questions(page)).toEqual(['uno']);
    expect(requests.at(-1)?.messages).toHaveLength(1);
    await page.getByText('2 / 2').waitFor();
    await page.getByRole('button', { name: 'The version before' }).click();
    expect(await questions(page)).toEqual(['one', 'more of one']);
    await page.getByRole('button', { name: 'Ask again' }).click();
    await expect.poll(() => answerTexts(page)).toEqual(['Answer 1 to one', 'Answer 5 to more of one']);
    const versions = page.locator('article').last().locator('.versions');
    expect(await versions.textContent()).toContain('2 / 2');
    await versions.getByRole('button', { name: 'The version before' }).click();
    const before = ['Answer 1 to one', 'Answer 2 to more of one'];
    expect(await answerTexts(page)).toEqual(before);
    await page.reload();
    await state(page, 'connected');
    // The way that was shown last.
    await expect.poll(async () => (await answerTexts(page))[0]).toBe(before[0]);
    await expect.poll(() => page.locator('.versions:visible').count()).toBe(2);
  });

  it('are the same in two tabs', async () => {
    const { page, url } = await twoChats();
    const other = await another(page, url);
    await other.getByRole('button', { name: 'two', exact: true }).click();
    await expect.poll(() => questions(other)).toEqual(['two']);
    await ask(page, 'two and a half');
    for (const each of [page, other]) {
      await finished(each, 2);
      expect(await questions(each)).toEqual(['two', 'two and a half']);
    }
    await ask(other, 'three');
    for (const each of [page, other]) await finished(each, 3);
    expect(await answerTexts(page)).toEqual(await answerTexts(other));
    await more(other, 'two', 'Delete');
    await expect.poll(() => page.locator('article').count()).toBe(0);
    await expect.poll(() => titles(page)).toEqual(['one']);
  });

  it('are not kept if the user does not want it, and there again if that was a mistake', async () => {
    const { page, url } = await twoChats();
    await page.getByLabel('Keep chats in this browser').uncheck();
    await page.getByText('Nothing is kept: a chat ends with its tab.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await expect.poll(() => titles(page)).toEqual(['two', 'one']);
    await page.getByLabel('Keep chats in this browser').uncheck();
    // The shown chat stays in its tab.
    await page.reload();
    await state(page, 'connected');
    expect(await questions(page)).toEqual(['two']);
    await ask(page, 'three');
    await finished(page, 2);
    const other = await another(page, url);
    await other.getByText('Nothing is kept').waitFor();
    expect(await titles(other)).toEqual([]);
    const stored = await page.evaluate(async () => {
      const names = (await indexedDB.databases()).map(({ name }) => name ?? '');
      const counts = names.map(
        (name) =>
          new Promise<number>((resolve) => {
            indexedDB.open(name).onsuccess = ({ target }) => {
              const db = (target as IDBOpenDBRequest).result;
              db.transaction('turns').objectStore('turns').count().onsuccess = (event) => {
                db.close();
                resolve((event.target as IDBRequest<number>).result);
              };
            };
          }),
      );
      return await Promise.all(counts);
    });
    expect(stored).toEqual([0]);
  });

  it('are not kept by a server that is started so', async () => {
    const { page } = await host((html) => html.replace('<html ', '<html data-history="off" '));
    await ask(page, 'one');
    await finished(page, 1);
    expect(await page.locator('#chats').isVisible()).toBe(false);
    expect(await page.evaluate(async () => (await indexedDB.databases()).length)).toBe(0);
    await page.reload();
    await state(page, 'connected');
    expect(await questions(page)).toEqual(['one']);
  });

  it('say so if the browser has no room', async () => {
    const { page } = await host();
    await page.evaluate(() => {
      IDBObjectStore.prototype.put = () => {
        throw new DOMException('it is full', 'QuotaExceededError');
      };
    });
    await ask(page, 'one');
    await page.getByText('This browser has no room for more').waitFor();
    await finished(page, 1);
    await ask(page, 'two');
    await finished(page, 2);
    await page.reload();
    await state(page, 'connected');
    expect(await questions(page)).toEqual(['one', 'two']);
  });

  it('of one user are not those of another', async () => {
    const server = pages.use(
      createServer({
        authenticate: ({ token }) => (token?.startsWith('user-') ? { principal: token } : null),
        onRequest: (request, context) =>
          completionReply(request.json<ChatRequest>(), ['The answer.'], context),
      }),
    );
    const { port } = await server.listen({ respond: createUserInterface({ folder: BUILT_PAGES }) });
    const url = `http://127.0.0.1:${port}/`;
    const { page } = await pages.visit(url);
    const signIn = async (tab: Page, token: string) => {
      await tab.getByLabel('Token', { exact: true }).fill(token);
      await tab.keyboard.press('Enter');
      await state(tab, 'connected');
    };
    await signIn(page, 'user-a');
    await ask(page, 'a secret');
    await finished(page, 1);
    await expect.poll(() => titles(page)).toEqual(['a secret']);
    const other = await page.context().newPage();
    await other.goto(url);
    await signIn(other, 'user-b');
    expect(await titles(other)).toEqual([]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, 'user-a');
    await page.getByText('Your chats will be here.').waitFor();
    expect(await page.locator('article').count()).toBe(0);
  });
});
