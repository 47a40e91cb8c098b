import { decodeHttpRequest, encodeHttpResponse } from '@parlance/protocol';
import { createServer, RequestError } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import { describe, expect, it } from 'vitest';
import { type ChatRequest, completionReply } from '../../../examples/demo/chat-completion.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';

/** The additions to a question: files, a system prompt, a model. */

/** A picture of one pixel. */
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

const contentOf = (request: ChatRequest | undefined): unknown => request?.messages[0]?.content;

describe.skipIf(chromiumMissing() !== undefined)('with a question', () => {
  const pages = ChatPages.use();

  async function open(models: readonly string[] = []) {
    const requests: ChatRequest[] = [];
    const server = pages.use(
      createServer({
        onRequest(request, context) {
          if (decodeHttpRequest(context.metadata)?.path === '/v1/models') {
            if (models.length === 0) throw new RequestError('not_found', 'no models');
            const headers = new Map([['content-type', 'application/json']]);
            context.setMetadata(encodeHttpResponse({ status: 200, headers }));
            return JSON.stringify({ object: 'list', data: models.map((id) => ({ id, object: 'model' })) });
          }
          requests.push(request.json<ChatRequest>());
          return completionReply(request.json<ChatRequest>(), ['The answer.'], context);
        },
      }),
    );
    const { port } = await server.listen({ respond: createUserInterface({ folder: BUILT_PAGES }) });
    const { page, complaints } = await pages.visit(`http://127.0.0.1:${port}/`);
    await state(page, 'connected');
    return { page, complaints, requests };
  }

  it('go texts and pictures, whose size is said before', async () => {
    const { page, complaints, requests } = await open();
    await page.locator('#files').setInputFiles([
      { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes\n```\ncode\n```\n') },
      { name: 'pixel.png', mimeType: 'image/png', buffer: PIXEL },
      { name: 'program', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 255, 254]) },
    ]);
    await page.getByText('“program” is neither a picture nor text.').waitFor();
    await page.getByText(/\sB will be sent with the question/).waitFor();
    await ask(page, 'What is this?');
    await finished(page, 1);
    const content = contentOf(requests[0]);
    expect(content).toEqual([
      {
        type: 'text',
        text: 'File “notes.md”:\n\n````\n# Notes\n```\ncode\n```\n````\n\nWhat is this?',
      },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL.toString('base64')}` } },
    ]);
    const shown = page.locator('.question .files');
    expect(await shown.locator('img').getAttribute('alt')).toBe('pixel.png');
    expect(await page.locator('#attached').isVisible()).toBe(false);
    // They are part of the conversation from then on, and stay with it.
    await page.reload();
    await state(page, 'connected');
    await shown.getByText('notes.md').waitFor();
    await ask(page, 'And?');
    await finished(page, 2);
    expect(contentOf(requests[1])).toEqual(content);
    expect(complaints.join('\n')).toBe('');
  });

  it('go no files that the server would refuse', async () => {
    const { page } = await open();
    const buffer = Buffer.alloc(9_000_000, 'x');
    await page.locator('#files').setInputFiles([{ name: 'large.txt', mimeType: 'text/plain', buffer }]);
    await page.getByText(/“large.txt” has 9.0\sMB, and there is room for/).waitFor();
    expect(await page.locator('#attached li').count()).toBe(0);
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true);
  });

  it('go a system prompt and a temperature, if they are given', async () => {
    const { page, requests } = await open();
    await ask(page, 'one');
    await finished(page, 1);
    expect(Object.keys(requests[0] ?? {})).not.toContain('temperature');
    await page.getByRole('button', { name: 'System prompt' }).click();
    await page.locator('#system').fill('Be brief.');
    await page.locator('#temperature').fill('0.5');
    await page.reload();
    await state(page, 'connected');
    await ask(page, 'two');
    await finished(page, 2);
    expect(requests[1]).toMatchObject({ temperature: 0.5 });
    expect(requests[1]?.messages.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user']);
    expect(requests[1]?.messages[0]?.content).toBe('Be brief.');
  });

  it('goes the model that was chosen of those that the API lists, or any other', async () => {
    const { page, requests } = await open(['large', 'small']);
    await page.locator('#model-open').click();
    await page.getByRole('button', { name: 'small' }).click();
    await ask(page, 'one');
    await finished(page, 1);
    await page.locator('#model-open').click();
    // It does not cover the list of chats at the left.
    const lefts = ['#model-menu', '#model-open'].map((id) =>
      page.locator(id).evaluate((each) => each.getBoundingClientRect().left),
    );
    expect(new Set(await Promise.all(lefts)).size).toBe(1);
    await page.getByLabel('Another model').fill('other');
    await page.keyboard.press('Enter');
    await page.reload();
    await state(page, 'connected');
    await ask(page, 'two');
    await finished(page, 2);
    expect(requests.map(({ model }) => model)).toEqual(['small', 'other']);
  });

  it.each([
    [['text-embedding-3-small', 'llama3', 'gemma'], 'llama3'],
    [['gemma', 'gpt-4o'], 'gpt-4o'],
    [[], 'gpt-4o'],
  ])('goes a model that the API has if the user has chosen none: of %j %s', async (models, expected) => {
    const { page, requests } = await open(models);
    await ask(page, 'one');
    await finished(page, 1);
    expect(requests.map(({ model }) => model)).toEqual([expected]);
    expect(await page.locator('#model-name').textContent()).toBe(expected);
  });

  it('help the keys that the page lists', async () => {
    const { page } = await open();
    await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
    await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();
    await page.getByLabel('Colours').selectOption('dark');
    const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
    expect(await scheme()).toBe('dark');
    await page.keyboard.press('Escape');
    await page.reload();
    await state(page, 'connected');
    expect(await scheme()).toBe('dark');
    await ask(page, 'one');
    await finished(page, 1);
    await page.keyboard.press('Control+k');
    expect(await page.locator('#chat-search').evaluate((each) => each === document.activeElement)).toBe(true);
    await page.keyboard.press('Control+Shift+O');
    expect(await page.locator('article').count()).toBe(0);
  });
});
