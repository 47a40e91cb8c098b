import { createServer } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { type ChatRequest, completionReply } from '../../../examples/demo/chat-completion.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';

/** The features that people know of answers in other chats: colours, formulas, footnotes, thoughts. */

describe.skipIf(chromiumMissing() !== undefined)('an answer', () => {
  const pages = ChatPages.use();

  async function answered(answer: string): Promise<{ page: Page; complaints: string[] }> {
    const server = pages.use(
      createServer({
        onRequest: (request, context) => completionReply(request.json<ChatRequest>(), [answer], context),
      }),
    );
    const { port } = await server.listen({ respond: createUserInterface({ folder: BUILT_PAGES }) });
    const { page, complaints } = await pages.visit(`http://127.0.0.1:${port}/`);
    await state(page, 'connected');
    await ask(page, 'Go');
    await finished(page, 1);
    return { page, complaints };
  }

  it('has colours in its code, which can be wrapped, and no words are changed', async () => {
    const code = `const text: string = '<b>&amp;</b>'; // ${'long '.repeat(60)}`;
    const { page, complaints } = await answered(`\`\`\`ts\n${code}\n\`\`\`\n\n\`\`\`nolanguage\n<i>\n\`\`\``);
    const [first, second] = [page.locator('.code').first(), page.locator('.code').last()];
    await first.locator('.hljs-keyword').first().waitFor();
    expect(await first.locator('code').textContent()).toBe(`${code}\n`);
    expect(await second.locator('code').textContent()).toBe('<i>\n');
    const overflow = () => first.locator('pre').evaluate((pre) => pre.scrollWidth - pre.clientWidth);
    expect(await overflow()).toBeGreaterThan(0);
    await first.getByRole('button', { name: 'Wrap lines' }).click();
    expect(await overflow()).toBe(0);
    expect(complaints.join('\n')).toBe('');
  });

  it('has its formulas, and shows as it was written what is none', async () => {
    const { page, complaints } = await answered(
      'Inline \\(a^2 + b_1\\) here.\n\n\\[\n\\frac{1}{2}\n\\]\n\n$$\\sqrt{x}$$\n\nBroken \\(\\frac{\\) and \\(\\href{javascript:alert(1)}{x}\\), and 5 $ or 6 $.',
    );
    const answer = page.locator('answer-text');
    await answer.locator('math msup').waitFor();
    expect(await answer.locator('.maths.display math').count()).toBe(2);
    expect(await answer.locator('mfrac').count()).toBe(1);
    expect(await answer.locator('.maths code').first().textContent()).toBe('\\frac{');
    expect(await answer.locator('[href]').count()).toBe(0);
    expect(await answer.locator('p').last().textContent()).toContain('5 $ or 6 $.');
    expect(complaints.join('\n')).toBe('');
  });

  it('has footnotes that lead to their texts', async () => {
    const { page } = await answered('A claim[^1] and another[^b].\n\n[^1]: The *source*.\n[^b]: Word');
    const reference = page.getByRole('button', { name: 'Footnote b' });
    expect(await reference.textContent()).toBe('b');
    expect(await page.locator('.note-text').allTextContents()).toEqual(['1 The source.', 'b Word']);
    expect(await page.locator('.note-text em').textContent()).toBe('source');
  });

  it('tells thoughts from words, also if the API does not', async () => {
    const { page } = await answered('<think>Let me see.</think>\n\nThe words.');
    await page.getByText(/^Thought/).click();
    await page.locator('.thinking p').getByText('Let me see.').waitFor();
    expect((await page.locator('answer-text').textContent())?.trim()).toBe('The words.');
  });

  it('from the right has its bullets there, and its code from the left', async () => {
    const { page } = await answered('- مرحبا `const x = 1;` بالعالم\n- ثانيا\n\n```js\nx = 1;\n```');
    const direction = (selector: string) =>
      page
        .locator(selector)
        .first()
        .evaluate((each) => getComputedStyle(each).direction);
    expect(await direction('answer-text ul')).toBe('rtl');
    expect(await direction('answer-text li > code')).toBe('ltr');
    expect(await direction('.code pre')).toBe('ltr');
  });

  it('that is complete needs no button to its end', async () => {
    const { page } = await answered('A line.\n\n'.repeat(100));
    await page.locator('#log').hover();
    await page.mouse.wheel(0, -600);
    await expect
      .poll(() => page.locator('#log').evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight))
      .toBeGreaterThan(100);
    expect(await page.locator('#latest').isVisible()).toBe(false);
  });
});
