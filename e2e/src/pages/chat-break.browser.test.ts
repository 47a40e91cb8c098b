import type { RequestHandler } from '@parlance/protocol';
import { createServer, RequestError } from '@parlance/server';
import axe from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ChatRequest, completionReply } from '../../../examples/demo/chat-completion.js';
import { answerTo } from '../../../examples/demo/responder.js';
import { type ChatPageOptions, startChatPage } from '../../../examples/demo/serve-chat.js';
import { answerText, ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing, launchChromium, type OpenPage, openPage } from '../kit/chat-page.js';
import { type Serving, startServing } from '../kit/cli-process.js';

/** The chat page of the demo as people see and use it, in a real browser. */

/** An answer with all that Markdown has, and a paragraph from the right. */
const MARKDOWN = `## Markdown, as it streams

Text can be **bold**, *slanted*, ~~struck out~~ or \`code\`. It can link to [the WebSocket protocol](https://www.rfc-editor.org/rfc/rfc6455), too.

1. A list counts its items.
2. An item can hold a list of its own:
   - like this one,
   - with two items.

> A quotation keeps to itself.

| What you send | JSON | on the socket |
| --- | ---: | ---: |
| the first question | 120 B | 96 B |
| the tenth, with the whole history | 9.1 kB | 130 B |

The table above has figures of a typical chat; those of *this* chat are in the panel.

---

هذه الجملة تُقرأ من اليمين إلى اليسار.`;

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of the chat page: ${missing}`);
}

const LONG = 'How does an answer survive a lost connection?';
const COST = 'What does a long chat cost?';
const chatOf = (content: string): ChatRequest => ({ model: 'gpt-4o', messages: [{ role: 'user', content }] });

describe.skipIf(missing !== undefined)('the chat page of parlance serve', () => {
  let browser: Browser;
  let serving: Serving;
  let address: string;

  beforeAll(async () => {
    browser = await launchChromium();
    serving = await startServing([], { PARLANCE_TOKEN: 'open-sesame' });
    address = serving.url.replace(/^ws/, 'http').replace('/session', '/');
  });
  afterAll(async () => {
    await browser?.close();
    await serving?.stop();
  });

  it('asks for the token, keeps it in its tab, and answers; its policy lets nothing else in or out', async () => {
    await using visited = await openPage(browser, address);
    const { page, complaints } = visited;
    await page.getByText('This server asks for a token').waitFor();
    await page.getByLabel('Token', { exact: true }).fill('wrong');
    await page.getByRole('button', { name: 'Connect', exact: true }).click();
    await expect.poll(() => page.getByLabel('Token', { exact: true }).inputValue()).toBe('');
    await state(page, 'refused');
    await page.getByLabel('Token', { exact: true }).fill('open-sesame');
    await page.keyboard.press('Enter');
    await state(page, 'connected');
    await ask(page, COST);
    await finished(page, 1);
    expect(await answerText(page)).toBe(answerTo(chatOf(COST)));
    for (const shown of ['table', 'math', '.code', '.note-reference'])
      expect(await page.locator(`answer-text ${shown}`).count(), shown).toBeGreaterThan(0);
    expect(await page.locator('#break-actions button').count()).toBe(1);
    await page.reload();
    await state(page, 'connected');
    expect(await page.evaluate(() => Object.values(localStorage))).not.toContain('open-sesame');
    expect(complaints.join('\n')).toBe('');

    const blocked = await page.evaluate(async () => {
      const isRefused = (run: () => unknown) => {
        try {
          run();
          return false;
        } catch {
          return true;
        }
      };
      const fetched = await fetch('http://127.0.0.1:1/').catch((error: Error) => error.message);
      return {
        fetched,
        html: isRefused(() => {
          document.body.innerHTML = '<img src=x>';
        }),
      };
    });
    expect(blocked).toEqual({ fetched: 'Failed to fetch', html: true });
  });

  it('sends the token to no server but its own', async () => {
    const tokens: (string | undefined)[] = [];
    await using stranger = createServer({
      origins: ['*'],
      authenticate({ token }) {
        tokens.push(token);
        return null;
      },
    });
    const { url } = await stranger.listen();
    await using visited = await openPage(browser, address);
    const { page, complaints } = visited;
    page.setDefaultTimeout(60_000);
    await page.getByLabel('Token', { exact: true }).fill('open-sesame');
    await page.keyboard.press('Enter');
    await state(page, 'connected');
    await page.goto(`${address}?server=${encodeURIComponent(url)}`);
    // The policy of the page does not even let it connect.
    await expect.poll(() => complaints.join('\n')).toContain('Content Security Policy');
    // And the page says so, instead of connecting for ever.
    await state(page, 'refused');
    const notice = await page.locator('#notice').textContent();
    expect(notice).toContain('This page may not connect there');
    expect(notice).toContain(url);
    expect(tokens).toEqual([]);
  });
});

describe.skipIf(missing !== undefined)('the chat page of the demo', () => {
  const pages = ChatPages.use();

  async function start(options: ChatPageOptions = {}) {
    const site = await startChatPage({
      port: 0,
      delayMs: 10,
      absenceMs: 500,
      freezeMs: 2_500,
      ...options,
    });
    pages.use({ [Symbol.asyncDispose]: site.close });
    return site;
  }

  async function visit(url: string, options?: BrowserContextOptions): Promise<OpenPage> {
    const visited = await pages.visit(url, options);
    await state(visited.page, 'connected');
    return visited;
  }

  /** A page that has asked, and has begun to read a long answer. */
  async function reading(options?: ChatPageOptions) {
    const site = await start({ delayMs: 25, ...options });
    const { page, complaints } = await visit(site.url);
    await ask(page, LONG);
    await longerThan(page, 300);
    return { site, page, complaints };
  }

  const whole = answerTo(chatOf(LONG));

  describe('when people break it', () => {
    it('by cutting the connection: shows how long it is kept, then the rest and where the cut was', async () => {
      // The notice is read while the page is away.
      const { site, page } = await reading({ absenceMs: 3_000 });
      const ids = [...site.sessions.sessions.keys()];
      await page.evaluate(() => {
        const source = () =>
          (document.querySelector('answer-text') as HTMLElement & { source: string }).source;
        new MutationObserver((_changes, observer) => {
          if (document.body.dataset['state'] !== 'suspended') return;
          Object.assign(window, { before: source() });
          observer.disconnect();
        }).observe(document.body, { attributes: true });
      });
      await page.locator('[data-break="cut"]').click();
      await state(page, 'suspended');
      expect(await page.locator('#status').textContent()).toBe('Offline');
      expect(await page.locator('#countdown').textContent()).toMatch(
        /^A server that is up keeps the session for [12]:\d\d$/,
      );
      const before = await page.evaluate(() => (window as unknown as { before: string }).before);
      await state(page, 'connected');
      await finished(page, 1);
      expect(await answerText(page)).toBe(whole);
      expect([...site.sessions.sessions.keys()]).toEqual(ids);
      const mark = page.locator('answer-text .mark');
      expect(await mark.count()).toBe(1);
      expect(await mark.textContent()).toMatch(
        /^connection lost for [\d.]+\ss( · \d+\spieces? caught up)? · nothing missing$/,
      );
      // It stands where the text ended when the connection was lost.
      const shownBefore = await page.locator('answer-text').evaluate((answer) => {
        const range = document.createRange();
        range.setStart(answer, 0);
        range.setEndBefore(answer.querySelector('.mark') as Element);
        return range.toString();
      });
      expect(lettersOf(before)).toContain(lettersOf(shownBefore).slice(0, 100));
      expect(Math.abs(lettersOf(shownBefore).length - lettersOf(before).length)).toBeLessThan(12);
    });

    it('by freezing it: nothing comes, then everything at once', async () => {
      const { page } = await reading();
      await page.locator('[data-break="freeze"]').click();
      await page.getByText('Nothing passes for 3 s.').waitFor();
      await finished(page, 1);
      expect(await answerText(page)).toBe(whole);
      await page.getByText(/connection (frozen|lost) for [\d.]+\ss.*nothing missing/).waitFor();
    });

    it('by freezing it for longer: the light says that an answer is waited for, before the loss is noticed', async () => {
      const { page } = await reading({ freezeMs: 7_000 });
      await page.evaluate(() => {
        const status = document.querySelector('#status') as HTMLElement;
        const seen: string[] = [];
        Object.assign(window, { seen });
        new MutationObserver(() => {
          const { state } = document.body.dataset;
          seen.push(`${state}: ${status.textContent}`);
        }).observe(status, { childList: true, characterData: true, subtree: true });
      });
      await page.locator('[data-break="freeze"]').click();
      await page.locator('#status', { hasText: 'Quiet' }).waitFor();
      await finished(page, 1);
      expect(await answerText(page)).toBe(whole);
      await page.locator('#status', { hasText: /^(Live|Back)$/ }).waitFor();
      const seen = await page.evaluate(() => (window as unknown as { seen: string[] }).seen);
      expect(seen[0]).toBe('connected: Quiet');
    });

    it('by loading it again: the answer continues', async () => {
      const { site, page } = await reading();
      const ids = [...site.sessions.sessions.keys()];
      await page.locator('[data-break="reload"]').click();
      await finished(page, 1);
      expect(await answerText(page)).toBe(whole);
      await page.getByText(/page loaded again after [\d.]+\ss/).waitFor();
      expect([...site.sessions.sessions.keys()]).toEqual(ids);
    });

    it('by restarting the server: the answer is complete, and its session moves to the new server', async () => {
      const { site, page } = await reading();
      const old = site.sessions;
      const ids = [...old.sessions.keys()];
      await page.locator('[data-break="restart"]').click();
      await finished(page, 1);
      expect(await answerText(page)).toBe(whole);
      expect(site.sessions).not.toBe(old);
      await page.getByText(/^moved to another connection in [\d.]+\ss.* · nothing missing$/).waitFor();
      await expect.poll(() => [...site.sessions.sessions.keys()]).toEqual(ids);
      await state(page, 'connected');
      await ask(page, COST);
      await finished(page, 2);
      expect(await answerText(page)).toBe(answerTo(chatOf(COST)));
    });

    it('breaks no page but the one that asked, and obeys no other origin', async () => {
      const site = await start();
      const one = await visit(site.url);
      const other = await visit(site.url);
      await ask(one.page, LONG);
      await longerThan(one.page, 50);
      await other.page.evaluate(() => {
        const seen: string[] = [];
        Object.assign(window, { seen });
        new MutationObserver(() => seen.push(document.body.dataset['state'] ?? '')).observe(document.body, {
          attributes: true,
        });
      });
      await one.page.locator('[data-break="cut"]').click();
      await state(one.page, 'suspended');
      await state(one.page, 'connected');
      expect(await other.page.evaluate(() => (window as unknown as { seen: string[] }).seen)).not.toContain(
        'suspended',
      );
      const headers = [{}, { origin: 'http://evil.example' }, { origin: 'null' }];
      for (const each of headers) {
        const response = await fetch(`${site.url}demo/restart`, {
          method: 'POST',
          headers: each as Record<string, string>,
        });
        expect(response.status).toBe(403);
      }
      for (const name of ['constructor', '__proto__', '']) {
        const own = { origin: new URL(site.url).origin };
        expect((await fetch(`${site.url}demo/${name}`, { method: 'POST', headers: own })).status).toBe(403);
      }
    });
  });

  describe('Markdown', () => {
    /** A page at whose model the test writes the answer. */
    async function answering(pieces: readonly string[], until?: Promise<void>) {
      const onRequest: RequestHandler = async function* (request, context) {
        const parts = async function* () {
          yield* pieces;
          await until;
        };
        yield* completionReply(request.json<ChatRequest>(), parts(), context);
      };
      const site = await start({ onRequest });
      const { page, complaints } = await visit(site.url);
      await ask(page, 'Go');
      if (until === undefined) await finished(page, 1);
      return { page, complaints };
    }

    it('is shown as it is meant, and the text around it in its direction', async () => {
      const { page, complaints } = await answering(MARKDOWN.match(/\s*\S+/gu) ?? []);
      const answer = page.locator('answer-text');
      for (const selector of [
        'h4',
        'strong',
        'em',
        'del',
        'code',
        'ol > li > ul > li',
        'blockquote',
        'td',
        'hr',
      ])
        expect([selector, await answer.locator(selector).count()]).not.toEqual([selector, 0]);
      const link = answer.locator('a');
      expect(await link.getAttribute('rel')).toBe('noreferrer noopener');
      expect(await link.getAttribute('target')).toBe('_blank');
      const arabic = answer.locator('p').last();
      expect(await arabic.evaluate((element) => getComputedStyle(element).direction)).toBe('rtl');
      expect(complaints.join('\n')).toBe('');
    });

    it('with a fence that is still open is code, and is copied as it was written', async () => {
      let end = (): void => {};
      const until = new Promise<void>((resolve) => {
        end = resolve;
      });
      const { page } = await answering(['Look:\n\n```py', 'thon\nprint("<b>")\n', '**not bold**'], until);
      await page.locator('answer-text pre').getByText('**not bold**').waitFor();
      expect(await page.locator('.code-head span').textContent()).toBe('python');
      expect(await page.locator('answer-text strong').count()).toBe(0);
      end();
      await finished(page, 1);
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.locator('.code-head .copy').click();
      const copied = () => page.evaluate(() => navigator.clipboard.readText());
      await expect.poll(copied).toBe('print("<b>")\n**not bold**');
      await page.locator('.actions .copy').click();
      await expect.poll(copied).toBe('Look:\n\n```python\nprint("<b>")\n**not bold**');
    });

    it('that would cost its parser too much is shown as it was written, beside the rest', async () => {
      const quotes = '>'.repeat(5_000);
      const stars = '***a'.repeat(25_000);
      const pieces = ['# Before\n\n', quotes, '\n\n- one\n', '- two\n\n', stars, '\n\n**after**'];
      const { page, complaints } = await answering(pieces);
      const answer = page.locator('answer-text');
      expect(await answer.locator('.plain').allTextContents()).toEqual([quotes, stars]);
      expect(await answer.locator('h4').textContent()).toBe('Before');
      expect(await answer.locator('li').count()).toBe(2);
      expect(await answer.locator('strong').allTextContents()).toEqual(['after']);
      expect(complaints.join('\n')).toBe('');
    });

    it('keeps blocks that are complete as they are while the text grows', async () => {
      const pieces = Array.from({ length: 60 }, (_, i) => (i % 3 === 2 ? ' end.\n\n' : `word ${i} `));
      let end = (): void => {};
      const until = new Promise<void>((resolve) => {
        end = resolve;
      });
      const { page } = await answering(pieces, until);
      await expect.poll(() => page.locator('answer-text .block').count()).toBe(20);
      const first = page.locator('answer-text .block p').first();
      await first.evaluate((element) => Object.assign(element, { isSame: true }));
      end();
      await finished(page, 1);
      expect(await first.evaluate((element) => 'isSame' in element)).toBe(true);
    });

    it.each(['#', '###', '### '])(
      'has no heading without words if it is stopped after “%s”',
      async (sign) => {
        const never = new Promise<void>(() => {});
        const { page } = await answering(['Look here:\n\n', sign], never);
        await expect.poll(() => answerText(page)).toBe(`Look here:\n\n${sign}`);
        await page.keyboard.press('Escape');
        await page.getByText('You stopped this answer.').waitFor();
        await page.locator('answer-text').getByText('Look here:').waitFor();
        expectNone(await faultsOf(page));
      },
    );

    it('has no number of an item whose words have not come if it is stopped before them', async () => {
      const never = new Promise<void>(() => {});
      const { page } = await answering(['Look here:\n\n', '1. One\n', '2.'], never);
      await expect.poll(() => page.locator('answer-text li').count()).toBe(2);
      await page.keyboard.press('Escape');
      await page.getByText('You stopped this answer.').waitFor();
      await expect.poll(() => page.locator('answer-text li').allTextContents()).toEqual(['One']);
      expect(await answerText(page)).toContain('2.');
      expectNone(await faultsOf(page));
    });

    it('has no mark between the items of a list if the connection is lost before the first word', async () => {
      const never = new Promise<void>(() => {});
      const { page } = await answering(['Look here:\n\n', '1.'], never);
      await expect.poll(() => answerText(page)).toBe('Look here:\n\n1.');
      await page.locator('[data-break="cut"]').click();
      await page.locator('answer-text .mark').waitFor();
      expect(await page.locator('answer-text ol').count()).toBe(1);
      expectNone(await faultsOf(page));
    });

    it('of a hostile model is text: nothing runs, nothing is fetched, nothing looks like the page', async () => {
      const hostile = [
        '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>',
        '<svg onload="window.hacked=3"></svg> <iframe src="javascript:window.parent.hacked=4"></iframe>',
        '[a](javascript:window.hacked=5) [b](data:text/html,x) [c](vbscript:x) [d](JaVaScRiPt:window.hacked=6)',
        '![image](http://evil.example/track.png) <style>body{display:none}</style>',
        '<form action="http://evil.example"><input name=q><button id=send>go</button></form>',
        '`<img src=x onerror=window.hacked=7>` <a href="x" onclick="window.hacked=8">e</a>',
        '<div id="notice" class="mark">fake</div> <math><mtext><table><mglyph><style><img src=x onerror=window.hacked=9>',
        '| a |\n|---|\n| <img src=x onerror=window.hacked=10> |',
        '```"><img src=x onerror=window.hacked=11>\ncode\n```',
      ].join('\n\n');
      const requested: string[] = [];
      const { page, complaints } = await answering([hostile]);
      page.on('request', (request) => requested.push(request.url()));
      const answer = page.locator('answer-text');
      expect(
        await answer
          .locator('img, script, svg:not(.code-head .icon), iframe, style, form, input, math, #notice, #send')
          .count(),
      ).toBe(0);
      expect(await answer.locator('.mark').count()).toBe(0);
      expect(await answer.locator('[onerror], [onclick], [onload], [style]').count()).toBe(0);
      const addresses = await answer
        .locator('a[href]')
        .evaluateAll((links) => links.map((link) => link.getAttribute('href')));
      expect(addresses).toEqual(['http://evil.example/track.png']);
      expect(await answer.textContent()).toContain('<script>window.hacked=2</script>');
      await page.waitForTimeout(200);
      expect(await page.evaluate(() => 'hacked' in window)).toBe(false);
      expect(requested.filter((url) => url.includes('evil'))).toEqual([]);
      expect(complaints.join('\n')).toBe('');
    });
  });

  describe('the keyboard', () => {
    it('stops with Esc, edits with ↑, and Esc gives up editing', async () => {
      const site = await start({ delayMs: 25 });
      const { page } = await visit(site.url);
      const box = page.getByLabel('Your message');
      // A click on Send would leave the focus where this browser's pointer puts it.
      await box.fill(LONG);
      await page.keyboard.press('Enter');
      await longerThan(page, 20);
      await page.keyboard.press('Escape');
      await page.getByText('You stopped this answer.').waitFor();
      expect(await box.evaluate((element) => element === document.activeElement)).toBe(true);
      await page.keyboard.press('ArrowUp');
      await expect.poll(() => box.inputValue()).toBe(LONG);
      await page.keyboard.press('Escape');
      expect(await box.inputValue()).toBe('');
      await page.keyboard.press('ArrowUp');
      await box.fill(COST);
      await page.keyboard.press('Enter');
      await finished(page, 1);
      expect(await page.locator('article').count()).toBe(1);
      expect(await page.locator('.question').textContent()).toContain(COST);
      expect(await answerText(page)).toBe(answerTo(chatOf(COST)));
    });

    it('leaves the end of a growing answer, and comes back to it', async () => {
      const site = await start({ delayMs: 10 });
      const { page } = await visit(site.url, { viewport: { width: 1000, height: 420 } });
      await ask(page, LONG);
      await longerThan(page, 1_200);
      const log = page.locator('#log');
      await log.focus();
      for (const key of ['ArrowUp', 'ArrowUp', 'ArrowUp']) await page.keyboard.press(key);
      await page.locator('#latest').waitFor();
      const top = () => log.evaluate(({ scrollTop }) => scrollTop);
      await page.waitForTimeout(500);
      const before = await top();
      await longerThan(page, 1_600);
      expect(await top()).toBe(before);
      await page.locator('#latest').click();
      expect(await page.getByLabel('Your message').evaluate((box) => box === document.activeElement)).toBe(
        true,
      );
      await finished(page, 1);
      const distance = () => log.evaluate((each) => each.scrollHeight - each.scrollTop - each.clientHeight);
      await expect.poll(distance).toBeLessThan(2);
    });
  });

  it('remembers what is being written, and the curve, when it is loaded again', async () => {
    const site = await start();
    const { page } = await visit(site.url);
    await ask(page, COST);
    await finished(page, 1);
    const figures = () =>
      page
        .locator('#table tfoot td')
        .evaluateAll((cells) => cells.map((cell) => (cell as HTMLElement).dataset['bytes']));
    await page.getByText('Turn by turn').click();
    await expect.poll(async () => (await figures()).length).toBe(4);
    const before = await figures();
    await page.getByLabel('Your message').fill('half a thought');
    await page.reload();
    await state(page, 'connected');
    expect(await page.getByLabel('Your message').inputValue()).toBe('half a thought');
    await page.getByText('Turn by turn').click();
    await expect.poll(figures).toEqual(before);
  });

  it('asks again by itself when the API says how long to wait, and says what to do about other errors', async () => {
    let failure: unknown = new RequestError('slow_down', 'too many requests', { retryAfterMs: 1_500 });
    const onRequest: RequestHandler = (request, context) => {
      if (failure !== undefined) throw failure;
      return completionReply(request.json<ChatRequest>(), ['Here I am.'], context);
    };
    const site = await start({ onRequest });
    const { page } = await visit(site.url);
    await ask(page, 'Hello?');
    await page.getByText(/Asking again in \d s\./).waitFor();
    failure = undefined;
    await finished(page, 1);
    expect(await answerText(page)).toBe('Here I am.');
    failure = new RequestError('upstream_interrupted', 'gone');
    await ask(page, 'And now?');
    await page
      .getByText('The answer broke off: the model’s server closed the connection. Ask again.')
      .waitFor();
  });

  describe('for everyone', () => {
    const LOOKS: Readonly<Record<string, BrowserContextOptions>> = {
      light: { viewport: { width: 1440, height: 900 }, colorScheme: 'light' },
      dark: { viewport: { width: 768, height: 900 }, colorScheme: 'dark' },
      phone: { viewport: { width: 320, height: 700 }, isMobile: true, hasTouch: true },
      'forced colours': { viewport: { width: 1440, height: 900 }, forcedColors: 'active' },
    };

    it.each(Object.keys(LOOKS))('has no faults that axe can find, and fits: %s', async (look) => {
      const site = await start();
      const { page } = await visit(site.url, LOOKS[look]);
      const check = async (name: string) => {
        expectNone(await faultsOf(page), name);
        const width = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect([name, width <= 0]).toEqual([name, true]);
      };
      await check('empty');
      await ask(page, COST);
      await finished(page, 1);
      await check('answered');
      if ((await page.locator('#panel').getAttribute('open')) === null)
        await page.locator('#panel > summary').click();
      await page.getByText('Turn by turn').click();
      await page.locator('#session > summary').click();
      await check('panel open');
      await page.locator('#panel > summary').evaluate((summary) => (summary as HTMLElement).click());
      await ask(page, LONG);
      await longerThan(page, 100);
      await page.locator('[data-break="cut"]').evaluate((button) => (button as HTMLElement).click());
      await state(page, 'suspended');
      await check('suspended');
      await state(page, 'connected');
      await page.keyboard.press('Escape');
      await page.getByText('You stopped this answer.').waitFor();
      await check('stopped');
      await site.sessions.close();
      await page.getByRole('button', { name: 'Try now' }).waitFor();
      await check('lost');
    });
  });
});

async function longerThan(page: Page, length: number): Promise<void> {
  await page.locator('answer-text').last().waitFor({ state: 'attached' });
  await expect.poll(async () => (await answerText(page)).length).toBeGreaterThan(length);
}

/** Letters and digits only, without Markdown. */
function lettersOf(text: string): string {
  return text.replace(/[^\p{L}\p{N}]+/gu, '');
}

/** The message has all faults: a list of failures that is cut short would show how many there are. */
function expectNone(faults: readonly string[], where = ''): void {
  expect(faults, [where, ...faults].join('\n')).toEqual([]);
}

/** The faults that axe finds, best practices included. */
async function faultsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return await page.evaluate(async () => {
    const { violations } = await (window as unknown as { axe: typeof axe }).axe.run();
    return violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`,
    );
  });
}
