import type { RequestHandler } from '@parlance/protocol';
import { createServer, RequestError, type Server, type ServerOptions } from '@parlance/server';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { type ChatRequest, completionReply } from '../../../examples/demo/chat-completion.js';
import { CHAT_OPTIONS } from '../../../examples/demo/chat-options.js';
import { answerTo, createResponder } from '../../../examples/demo/responder.js';
import { startChatPage } from '../../../examples/demo/serve-chat.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { answerText, answerTexts, ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing, type HttpHost, serveFiles } from '../kit/chat-page.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** The chat page in a real browser, against real servers that answer, refuse and disappear. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of the chat page: ${missing}`);
}

const WORD_DELAY_MS = 10;
const LOOKS: readonly BrowserContextOptions[] = [
  { viewport: { width: 1280, height: 800 }, colorScheme: 'light' },
  { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' },
  { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: 'light' },
  { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: 'dark' },
];

describe.skipIf(missing !== undefined)('the chat page', () => {
  const pages = ChatPages.use();

  /** The built page and its session server at one origin. */
  async function host(options: ServerOptions = {}) {
    const files = await serveFiles(BUILT_PAGES);
    pages.use(files);
    const sessions = attach(files, options);
    return { url: `${files.origin}/`, sessions };
  }

  function attach(files: HttpHost, options: ServerOptions = {}): Server {
    const sessions = createServer({ onRequest: createResponder({ delayMs: WORD_DELAY_MS }), ...options });
    sessions.attach(files.http);
    pages.use(sessions);
    return sessions;
  }

  describe.each(['in the demo', 'at a server of its own'])('%s', (how) => {
    async function start() {
      if (how === 'at a server of its own') return await host();
      const page = await startChatPage({
        port: 0,
        delayMs: WORD_DELAY_MS,
      });
      pages.use({ [Symbol.asyncDispose]: page.close });
      return page;
    }

    it('streams answers in a conversation and shows the agreement and the cost', async () => {
      const { url, sessions } = await start();
      const { page, complaints } = await pages.visit(url);
      await state(page, 'connected');
      const lengths = await watchAnswer(page);

      await ask(page, 'What travels here?');
      await finished(page, 1);
      const first = question('What travels here?');
      expect(await answerText(page)).toBe(answerTo(chat(first)));
      // It arrived in pieces: each length is greater than the one before.
      const seen = await lengths();
      expect(seen.length).toBeGreaterThan(5);
      expect(seen).toEqual([...seen].sort((a, b) => a - b));

      await ask(page, 'And before that?');
      await finished(page, 2);
      const history = chat(first, reply(answerTo(chat(first))), question('And before that?'));
      expect(await answerText(page)).toBe(answerTo(history));
      expect(await answerText(page)).toContain('It is number 2 of this chat');

      const [session] = [...sessions.sessions.values()];
      const agreed = page.locator('#agreed');
      await page.locator('#session > summary').click();
      for (const fact of [session?.id as string, 'TOKEN', 'DICTIONARY', 'context', 'link'])
        await agreed.getByText(fact).first().waitFor();

      const { received, sent } = session?.stats() ?? expect.fail('the session is gone');
      const onSocket = received.wireBytes + sent.wireBytes;
      await page.getByText('Turn by turn').click();
      await page.locator('#table tfoot').waitFor();
      const totals = await figures(page, '#table tfoot td');
      const [socket, gzip, gzipBoth, http] = totals as [number, number, number, number];
      const rows = await figures(page, '#table tbody td');
      expect(rows).toHaveLength(8);
      for (const [column, total] of totals.entries())
        expect((rows[column] as number) + (rows[column + 4] as number)).toBe(total);
      expect(await curveOf(page)).toEqual({ turns: 2, isSteepest: socket > gzip ? 'socket' : 'gzip' });
      expect(await page.evaluate(coveredLabels)).toEqual([]);
      expect(gzipBoth).toBeGreaterThan(0);
      expect(gzipBoth).toBeLessThan(http);
      expect(gzip).toBeLessThan(http);
      expect(await page.locator('#difference').textContent()).toBe('Savings begin with the history');

      const requests = [chat(first), history].map((request) => JSON.stringify({ ...request, stream: true }));
      const leastHttp = requests.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
      expect(http).toBeGreaterThan(leastHttp);
      expect(socket).toBeGreaterThan(0);
      expect(socket).toBeLessThan(http);
      const [overhead] = await numbers(page, '#overhead');
      // The server counts the same messages without the headers of their frames.
      expect(socket + (overhead as number)).toBeGreaterThan(onSocket);

      await ask(page, 'And before both?');
      await finished(page, 3);
      await expect
        .poll(() => page.locator('#difference').textContent())
        .toMatch(/^(.*smaller|\d+\s% (less|more)) than with gzip$|^the same as with gzip$/);
      expect(complaints.join('\n')).toBe('');
    });
  });

  it('sends on Enter, breaks lines on Shift+Enter, and keeps text that is written meanwhile', async () => {
    const gate = deferred();
    const { url } = await host({
      onRequest: speak(async function* ({ messages }) {
        yield messages.at(-1)?.content ?? '';
        await gate.promise;
      }),
    });
    const { page, complaints } = await pages.visit(url);
    await state(page, 'connected');
    const box = page.getByLabel('Your message');
    expect(await box.evaluate(isFocused)).toBe(true);
    await page.keyboard.type('one');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('two');
    await page.keyboard.press('Enter');
    await expect.poll(() => answerText(page)).toBe('one\ntwo');
    expect(await box.inputValue()).toBe('');

    await page.keyboard.type('too early');
    await page.keyboard.press('Enter');
    expect(await box.inputValue()).toBe('too early');
    expect(await page.locator('article').count()).toBe(1);
    await page.getByText('It is sent as soon as this answer is complete.').waitFor();
    gate.resolve();
    await finished(page, 2);
    expect(await answerText(page)).toBe('too early');
    expect(await box.inputValue()).toBe('');
    // Blank text is not sent.
    await page.keyboard.type('   ');
    await page.keyboard.press('Enter');
    expect(await page.locator('article').count()).toBe(2);
    expect(complaints.join('\n')).toBe('');
  });

  it('stops in mid-answer, at the server too, and continues with the partial answer', async () => {
    const aborted = deferred();
    const requests: ChatRequest[] = [];
    const { url, sessions } = await host({
      onRequest: speak(async function* (request, signal) {
        requests.push(request);
        if (requests.length > 1) return yield 'enough';
        yield 'endless';
        signal.addEventListener('abort', () => aborted.resolve());
        while (!signal.aborted) {
          await new Promise((resolve) => setTimeout(resolve, WORD_DELAY_MS));
          yield ' words';
        }
      }),
    });
    const { page, complaints } = await pages.visit(url);
    await state(page, 'connected');
    await page.keyboard.type('Talk');
    await page.keyboard.press('Enter');
    await expect.poll(() => answerText(page)).toContain('endless words words');
    await page.keyboard.press('Tab');
    expect(await page.getByRole('button', { name: 'Stop' }).evaluate(isFocused)).toBe(true);
    await page.keyboard.press('Enter');
    await aborted.promise;
    await page.getByText('You stopped this answer.').waitFor();
    const partial = await answerText(page);
    expect(await page.getByLabel('Your message').evaluate(isFocused)).toBe(true);

    await ask(page, 'Thanks');
    await finished(page, 1);
    expect(await answerText(page)).toBe('enough');
    expect(requests[1]?.messages).toEqual([question('Talk'), reply(partial), question('Thanks')]);
    expect((await answerTexts(page))[0]).toBe(partial);
    const [session] = [...sessions.sessions.values()];
    expect(session?.stats().openStreams).toBe(0);
    expect(complaints.join('\n')).toBe('');
  });

  describe('loaded again', () => {
    const TEXTS = ['Grüße, ', '世界! ', '👩‍👩‍👧', ' 🦀', '\n  two spaces,\n\n', 'ẞ and ', 'the end.'];
    const WHOLE = TEXTS.join('');

    /** A model whose texts the test releases one by one. */
    function createModel() {
      let released = 0;
      let wake = (): void => {};
      const requests: ChatRequest[] = [];
      const signals: AbortSignal[] = [];
      const onRequest = speak(async function* (request, signal) {
        requests.push(request);
        signals.push(signal);
        for (const [i, text] of TEXTS.entries()) {
          while (i >= released && !signal.aborted) {
            await new Promise<void>((resolve) => {
              wake = resolve;
              signal.addEventListener('abort', () => resolve());
            });
          }
          if (signal.aborted) return;
          yield text;
        }
      });
      const release = (count: number) => {
        released = count;
        wake();
      };
      return { onRequest, requests, signals, release };
    }

    /** @param options by default, the server keeps answers. */
    async function hostModel(options: ServerOptions = CHAT_OPTIONS) {
      const model = createModel();
      return { ...model, ...(await host({ ...options, onRequest: model.onRequest })) };
    }

    const upTo = (count: number) => TEXTS.slice(0, count).join('');
    const shows = (page: Page, text: string) => expect.poll(() => answerText(page)).toBe(text);
    const reload = async (page: Page) => {
      await page.reload();
      await state(page, 'connected');
    };

    it('in mid-answer, continues where it was, without asking again or losing a character', async () => {
      const { url, requests, release } = await hostModel();
      const { page, complaints } = await pages.visit(url);
      await state(page, 'connected');
      await ask(page, 'Who are you?');
      // A page that is left before it has sent the request has nothing to continue.
      await expect.poll(() => requests.length).toBe(1);
      // Also before the first text.
      for (let count = 0; count < TEXTS.length; count++) {
        release(count);
        await shows(page, upTo(count));
        await reload(page);
        expect(await page.locator('.question .text').allTextContents()).toEqual(['Who are you?']);
        await shows(page, upTo(count));
        await page.getByRole('button', { name: 'Stop' }).waitFor();
      }
      release(TEXTS.length);
      await finished(page, 1);
      expect(await answerText(page)).toBe(WHOLE);
      expect(requests).toHaveLength(1);

      await ask(page, 'And?');
      await finished(page, 2);
      expect(requests[1]?.messages).toEqual([question('Who are you?'), reply(WHOLE), question('And?')]);
      await reload(page);
      expect(await answerTexts(page)).toEqual([WHOLE, WHOLE]);
      expect(await page.locator('.answer[data-state="done"]').count()).toBe(2);
      expect(await page.locator('#intro').isVisible()).toBe(false);
      expect(requests).toHaveLength(2);
      expect(complaints.join('\n')).toBe('');
    });

    it('when the server wrote on meanwhile, shows all of it', async () => {
      const { url, release } = await hostModel();
      const { page } = await pages.visit(url);
      await state(page, 'connected');
      await ask(page, 'Who are you?');
      release(2);
      await shows(page, upTo(2));
      await page.goto('about:blank');
      release(TEXTS.length);
      await page.goto(url);
      await finished(page, 1);
      expect(await answerText(page)).toBe(WHOLE);
    });

    it('stops the model at the server, and remembers that', async () => {
      const { url, signals, release } = await hostModel();
      const { page, complaints } = await pages.visit(url);
      await state(page, 'connected');
      await ask(page, 'Who are you?');
      release(3);
      await shows(page, upTo(3));
      await reload(page);
      expect(signals[0]?.aborted).toBe(false);
      await page.getByRole('button', { name: 'Stop' }).click();
      await expect.poll(() => signals[0]?.aborted).toBe(true);
      for (let i = 0; i < 2; i++) {
        await page.getByText('You stopped this answer.').waitFor();
        expect(await answerText(page)).toBe(upTo(3));
        await page.getByRole('button', { name: 'Send' }).waitFor();
        await reload(page);
      }
      expect(complaints.join('\n')).toBe('');
    });

    it('in a second tab of the same profile, follows the answer too, and no other profile does', async () => {
      const { url, signals, release } = await hostModel();
      const { page, complaints } = await pages.visit(url);
      await state(page, 'connected');
      await ask(page, 'Who are you?');
      release(2);
      await shows(page, upTo(2));
      const second = await page.context().newPage();
      await second.goto(url);
      await shows(second, upTo(2));
      await second.getByText('Asked in another tab').waitFor();
      const stranger = await pages.visit(url);
      await state(stranger.page, 'connected');

      release(4);
      for (const each of [page, second]) await shows(each, upTo(4));
      await second.reload();
      await shows(second, upTo(4));
      await second.getByRole('button', { name: 'Stop' }).click();
      await expect.poll(() => signals[0]?.aborted).toBe(true);
      await second.getByText('You stopped this answer.').waitFor();
      await page.getByText('This answer was stopped, in another tab or by the server.').waitFor();
      for (const each of [page, second]) expect(await answerText(each)).toBe(upTo(4));
      expect(await stranger.page.locator('article').count()).toBe(0);
      expect(await stranger.page.locator('#intro').isVisible()).toBe(true);
      expect(complaints.join('\n')).toBe('');
    });

    it('after "New chat", begins afresh, and the model has stopped', async () => {
      const { url, signals, requests, release } = await hostModel();
      const { page, complaints } = await pages.visit(url);
      await state(page, 'connected');
      expect(await page.getByRole('button', { name: 'New chat' }).isVisible()).toBe(false);
      await ask(page, 'Who are you?');
      release(1);
      await shows(page, upTo(1));
      await reload(page);
      await shows(page, upTo(1));
      await page.getByRole('button', { name: 'New chat' }).click();
      await expect.poll(() => signals[0]?.aborted).toBe(true);
      for (let i = 0; i < 2; i++) {
        expect(await page.locator('article').count()).toBe(0);
        expect(await page.locator('#intro').isVisible()).toBe(true);
        await reload(page);
      }
      release(TEXTS.length);
      await ask(page, 'And now?');
      await finished(page, 1);
      expect(requests[1]?.messages).toEqual([question('And now?')]);
      expect(complaints.join('\n')).toBe('');
    });

    it('at a server that keeps nothing, offers to ask again', async () => {
      const { url, requests, release } = await hostModel({});
      const { page } = await pages.visit(url);
      await state(page, 'connected');
      await ask(page, 'Who are you?');
      release(2);
      await shows(page, upTo(2));
      await reload(page);
      await page.getByRole('button', { name: 'Ask again' }).waitFor();
      expect(await answerText(page)).toBe(upTo(2));
      release(TEXTS.length);
      await page.getByRole('button', { name: 'Ask again' }).click();
      await finished(page, 1);
      expect(await answerText(page)).toBe(WHOLE);
      expect(requests[1]?.messages).toEqual([question('Who are you?')]);
    });

    it('or not, continues in a new session if the server has lost the old one', async () => {
      const { url } = await host();
      const { onRequest, requests, release } = createModel();
      const server = createServer({
        ...CHAT_OPTIONS,
        onRequest,
        origins: [new URL(url).origin],
        timers: { resumeWindowMs: 20, closingTimeoutMs: 50 },
      });
      pages.use(server);
      const { port } = await server.listen();
      const proxy = await createCuttingProxy(port);
      pages.use(proxy);
      const { page } = await pages.visit(`${url}?server=ws://127.0.0.1:${proxy.port}/session`);
      await state(page, 'connected');
      await ask(page, 'Who are you?');
      release(2);
      await shows(page, upTo(2));
      const before = await page.locator('#agreed code').first().textContent();
      proxy.refuse(true);
      proxy.cut();
      await new Promise((resolve) => setTimeout(resolve, 300));
      proxy.refuse(false);
      release(TEXTS.length);
      await finished(page, 1);
      expect(await answerText(page)).toBe(WHOLE);
      expect(await page.locator('#agreed code').first().textContent()).not.toBe(before);
      expect(requests).toHaveLength(1);
    });
  });

  it('shows why a request failed and asks again', async () => {
    let isBroken = true;
    const { url } = await host({
      onRequest(request, context) {
        if (isBroken) throw new RequestError('quota', 'come back tomorrow');
        return speak(() => ['Here I am.'])(request, context);
      },
    });
    const { page, complaints } = await pages.visit(url);
    await state(page, 'connected');
    await ask(page, 'Hello?');
    await page.getByText('Come back tomorrow.').waitFor();
    await page.getByText('Details').click();
    await page.getByText('quota: come back tomorrow').waitFor();
    // There is nothing to copy.
    const copies = page.getByRole('button', { name: 'Copy answer' });
    expect(await copies.isVisible()).toBe(false);
    isBroken = false;
    await page.getByRole('button', { name: 'Ask again' }).click();
    await expect.poll(() => answerText(page)).toBe('Here I am.');
    expect(await copies.isVisible()).toBe(true);
    expect(await page.getByLabel('Your message').evaluate(isFocused)).toBe(true);
    expect(await page.locator('article').count()).toBe(1);
    expect(await page.locator('.note').isVisible()).toBe(false);
    expect(complaints.join('\n')).toBe('');
  });

  describe('refused', () => {
    it('for its origin, says so and what to do, and waits for the user', async () => {
      const { url } = await host();
      const elsewhere = await serveFiles();
      pages.use(elsewhere);
      attach(elsewhere);
      const { page } = await pages.visit(`${url}?server=ws://127.0.0.1:${elsewhere.port}/session`);
      await state(page, 'refused');
      const notice = page.getByRole('alert').locator('..');
      const origin = new URL(url).origin;
      for (const told of [
        'The server refused this page',
        'SECURITY_POLICY',
        `does not admit pages from ${origin}`,
      ])
        await expect.poll(() => notice.textContent()).toContain(told);
      expect(await notice.textContent()).toContain(`origin ${origin} is not admitted`);
      expect(await page.locator('#countdown').textContent()).toBe('');
      await page.getByLabel('Your message').fill('Hello?');
      expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true);
      await page.keyboard.press('Enter');
      expect(await page.locator('article').count()).toBe(0);
      await page.getByRole('button', { name: 'Try now' }).click();
      await state(page, 'refused');
    });

    it('for missing credentials', async () => {
      const { url } = await host({ authenticate: () => null });
      const { page } = await pages.visit(url);
      await state(page, 'refused');
      expect(await page.locator('#notice').textContent()).toContain('This server asks for a token');
    });

    it('and then admitted once the server lists its origin', async () => {
      const { url } = await host();
      const elsewhere = await serveFiles();
      pages.use(elsewhere);
      const sessions = attach(elsewhere, { origins: [new URL(url).origin] });
      const { page, complaints } = await pages.visit(
        `${url}?server=ws://127.0.0.1:${elsewhere.port}/session`,
      );
      await state(page, 'connected');
      expect(sessions.sessions.size).toBe(1);
      expect(complaints.join('\n')).toBe('');
    });

    it('for connecting too often, and says when it tries again', async () => {
      const { url } = await host({ limits: { sessionsPerIp: 1 } });
      const first = await pages.visit(url);
      await state(first.page, 'connected');
      const { page } = await pages.visit(url);
      await state(page, 'refused');
      const notice = () => page.locator('#notice').textContent();
      for (const told of [
        'RATE_LIMITED',
        'sessions from one address are limited to 1',
        'This page waits and then tries again by itself',
      ])
        await expect.poll(notice).toContain(told);
      expect(await page.locator('#countdown').textContent()).toMatch(/^Next try in \d+\ss\.$/);
      // A page that is left ends its session; one whose browser is gone may come back.
      await first.page.goto('about:blank');
      await state(page, 'connected');
    });

    it('for an address that is not valid for a WebSocket', async () => {
      const { url } = await host();
      const { page } = await pages.visit(`${url}?server=ftp://127.0.0.1/session`);
      await state(page, 'refused');
      expect(await page.locator('#notice').textContent()).toContain('invalid_option');
    });
  });

  describe('lost', () => {
    /** The page, and a session server whose connections can be cut. */
    async function hostThroughProxy(responder?: Parameters<typeof createResponder>[0]) {
      const { url } = await host();
      const server = createServer({
        origins: [new URL(url).origin],
        onRequest: createResponder(responder),
      });
      pages.use(server);
      const { port } = await server.listen();
      const proxy = await createCuttingProxy(port);
      pages.use(proxy);
      return { server, proxy, address: `${url}?server=ws://127.0.0.1:${proxy.port}/session` };
    }

    it('when the server disappears in mid-answer, and returns by itself in a new session', async () => {
      const { url } = await host();
      const origins = [new URL(url).origin];
      const first = await serveFiles();
      const { port } = first;
      const doomed = createServer({ origins, onRequest: createResponder({ delayMs: 40 }) });
      doomed.attach(first.http);
      pages.use(doomed);
      const { page } = await pages.visit(`${url}?server=ws://127.0.0.1:${port}/session`);
      await state(page, 'connected');
      const [before] = [...doomed.sessions.keys()];
      await ask(page, 'Are you there?');
      await expect.poll(() => answerText(page)).not.toBe('');

      await first.cut();
      await state(page, 'suspended');
      await page.getByText('If the server is up, it continues writing.').waitFor();
      expect(await page.locator('#countdown').textContent()).toMatch(
        /^A server that is up keeps the session for [12]:\d\d$/,
      );
      expect(await page.getByRole('button', { name: 'Try now' }).isVisible()).toBe(true);
      expect(await answerText(page)).not.toBe('');

      const second = await serveFiles(undefined, port);
      pages.use(second);
      const revived = attach(second, { origins });
      await state(page, 'connected');
      expect(await page.locator('#status').textContent()).toMatch(/^(?:Back|Live)$/);
      const [after] = [...revived.sessions.keys()];
      expect(after).not.toBe(before);
      await page.locator('#session > summary').click();
      await page
        .locator('#agreed')
        .getByText(after as string)
        .waitFor();
      await page.getByText('Connected again, in a new session').waitFor();
      await page.getByText('The session was lost before the answer was complete.').waitFor();

      await page.getByRole('button', { name: 'Ask again' }).click();
      const again = answerTo(chat(question('Are you there?')));
      await expect.poll(() => answerText(page)).toBe(again);
      await ask(page, 'And now?');
      await expect.poll(() => answerText(page)).toContain('It is number 2 of this chat');
    });

    it('when the server is replaced in mid-answer, but only after the answer is complete', async () => {
      const { url } = await host();
      const origins = [new URL(url).origin];
      const first = createServer({ origins, onRequest: createResponder({ delayMs: 40 }) });
      pages.use(first);
      const { port } = await first.listen();
      const { page } = await pages.visit(`${url}?server=ws://127.0.0.1:${port}/session`);
      await state(page, 'connected');
      await ask(page, 'Is all of it here?');
      await expect.poll(() => answerText(page)).not.toBe('');
      const states = await watchStates(page);
      const drained = first.drain({ timeoutMs: 60_000, returnWithinMs: 2_000, releasePort: true });
      const second = createServer({ origins, onRequest: createResponder({ delayMs: WORD_DELAY_MS }) });
      pages.use(second);
      await second.listen({ port });
      expect(await drained).toEqual({ ended: 1, interrupted: 0, lost: 0 });
      await page.getByText('Connected again, in a new session').waitFor();
      await state(page, 'connected');
      // The delay may be a millisecond, too short to observe from outside that the page moves.
      expect((await states())['moving']).toEqual({
        answer: answerTo(chat(question('Is all of it here?'))),
        notice: expect.stringContaining('The server has said that it shuts down'),
      });
      await ask(page, 'And now?');
      await expect.poll(() => answerText(page)).toContain('It is number 2 of this chat');
    });

    it('twice in mid-answer while the server lives, without missing anything in the end', async () => {
      const { server, proxy, address } = await hostThroughProxy({ delayMs: 40 });
      const { page } = await pages.visit(address);
      await state(page, 'connected');
      const [id] = [...server.sessions.keys()];
      await ask(page, 'Does it all arrive?');
      for (const soFar of [1, 100]) {
        await expect.poll(async () => (await answerText(page)).length).toBeGreaterThan(soFar);
        proxy.refuse(true);
        proxy.cut();
        await state(page, 'suspended');
        proxy.refuse(false);
        await state(page, 'connected');
      }
      const whole = answerTo(chat(question('Does it all arrive?')));
      await expect.poll(() => answerText(page)).toBe(whole);
      expect([...server.sessions.keys()]).toEqual([id]);
      expect(await page.locator('#status').textContent()).toMatch(/^(?:Back|Live)$/);
    });

    it('for 3 s in mid-answer, wide and narrow, light and dark, without missing anything in the end', async () => {
      const { server, proxy, address } = await hostThroughProxy({ delayMs: 120 });
      const looks = LOOKS.map(async (look) => {
        const { page } = await pages.visit(address, look);
        await state(page, 'connected');
        return page;
      });
      const shown = await Promise.all(looks);
      const text = 'What happens to this answer?';
      await Promise.all(shown.map((page) => ask(page, text)));
      for (const page of shown)
        await expect.poll(async () => (await answerText(page)).length).toBeGreaterThan(20);
      const ids = [...server.sessions.keys()];
      proxy.refuse(true);
      proxy.cut();
      await Promise.all(shown.map((page) => state(page, 'suspended')));
      for (const page of shown) {
        expect(await page.locator('#status').textContent()).toBe('Offline');
        expect(await page.locator('.answer').getAttribute('data-state')).toBe('streaming');
        expect(await overflowing(page)).toEqual([]);
      }
      const before = await Promise.all(shown.map(answerText));
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      expect(await Promise.all(shown.map(answerText))).toEqual(before);

      proxy.refuse(false);
      const whole = answerTo(chat(question(text)));
      for (const page of shown) {
        await state(page, 'connected');
        await finished(page, 1);
        expect(await answerText(page)).toBe(whole);
        // Pieces that come later than a moment after it, on a busy machine, are not counted as caught up.
        await page.getByText(/connection lost for \d.*nothing missing/).waitFor();
        expect(await page.locator('#status').textContent()).toMatch(/^(?:Back|Live)$/);
        expect(await page.locator('#agreed').textContent()).toContain('1 time');
        expect(await overflowing(page)).toEqual([]);
      }
      expect([...server.sessions.keys()]).toEqual(ids);
    });

    it('and sends what was written meanwhile when it reconnects', async () => {
      const { proxy, address } = await hostThroughProxy();
      const { page } = await pages.visit(address);
      await state(page, 'connected');
      proxy.refuse(true);
      proxy.cut();
      await state(page, 'suspended');
      await ask(page, 'Can you hear me?');
      expect(await answerText(page)).toBe('');
      proxy.refuse(false);
      await state(page, 'connected');
      await finished(page, 1);
      expect(await answerText(page)).toBe(answerTo(chat(question('Can you hear me?'))));
    });

    it('when the server closes in order, and reconnects by itself when the next one is there', async () => {
      const { url } = await host();
      const origins = [new URL(url).origin];
      const first = createServer({ origins });
      const { port } = await first.listen();
      const { page } = await pages.visit(`${url}?server=ws://127.0.0.1:${port}/session`);
      await state(page, 'connected');
      await first.close();
      await state(page, 'moving');
      expect(await page.locator('#notice-title').textContent()).toBe(
        'The server has said that it shuts down.',
      );
      expect(await page.getByRole('button', { name: 'Try now' }).isVisible()).toBe(true);

      const second = createServer({ origins });
      pages.use(second);
      await second.listen({ port });
      await state(page, 'connected');
    });

    it('when the server ends its sessions for good, and reconnects at once on "Try now"', async () => {
      const { url } = await host();
      const origins = [new URL(url).origin];
      const first = createServer({ origins });
      const { port } = await first.listen();
      const { page } = await pages.visit(`${url}?server=ws://127.0.0.1:${port}/session`);
      await state(page, 'connected');
      await first.close({ sessions: 'end' });
      await state(page, 'lost');
      expect(await page.locator('#status').textContent()).toBe('Offline');

      const second = createServer({ origins });
      pages.use(second);
      await second.listen({ port });
      await page.getByRole('button', { name: 'Try now' }).click();
      await state(page, 'connected');
    });

    it('from the beginning, until a server starts', async () => {
      const { url } = await host();
      const vacant = await serveFiles();
      await vacant.cut();
      const { page } = await pages.visit(`${url}?server=ws://127.0.0.1:${vacant.port}/session`);
      await state(page, 'lost');
      expect(await page.locator('#status').textContent()).toBe('Offline');
      const late = createServer({ origins: [new URL(url).origin] });
      pages.use(late);
      await late.listen({ port: vacant.port });
      await state(page, 'connected');
      expect(await page.locator('#status').textContent()).toBe('Live');
    });
  });

  describe('on a phone', () => {
    const phone: BrowserContextOptions = {
      viewport: { width: 360, height: 740 },
      isMobile: true,
      hasTouch: true,
    };

    it('needs no sideways scrolling for any text', async () => {
      const { url } = await host();
      const { page, complaints } = await pages.visit(url, phone);
      await state(page, 'connected');
      expect(await overflowing(page)).toEqual([]);
      await ask(page, `${'unbreakable'.repeat(40)} and\n\nlines`);
      await finished(page, 1);
      expect(await overflowing(page)).toEqual([]);
      await page.locator('#panel > summary').click();
      await page.getByText('Negotiated').click();
      await page.getByText('Largest message').waitFor();
      expect(await overflowing(page)).toEqual([]);
      expect(complaints.join('\n')).toBe('');
    });

    it('shows why there is no session, and still accepts text', async () => {
      const { url } = await host({ authenticate: () => null });
      const { page } = await pages.visit(url, phone);
      await state(page, 'refused');
      expect(await overflowing(page)).toEqual([]);
      for (const part of ['#notice', '#retry', '#question', '#send'])
        expect(await page.locator(part).evaluate(isInView), part).toBe(true);
    });
  });
});

// --- the server's answers

/** Answers like an OpenAI-compatible API, in these pieces of text. */
function speak(
  piecesOf: (chat: ChatRequest, signal: AbortSignal) => AsyncIterable<string> | Iterable<string>,
): RequestHandler {
  return async function* (request, context) {
    const asked = request.json<ChatRequest>();
    yield* completionReply(asked, piecesOf(asked, context.signal), context);
  };
}

// --- the user's actions and view

/** Waits for a state that lasts until the test continues; see {@link watchStates} for transient ones. */
/** The last view of the page in a state. */
interface Shown {
  readonly answer: string;
  readonly notice: string;
}

/**
 * Records in the page what it shows in each of its states, because a transient state may be over before the
 * test can look. The returned function reads the records, by state.
 */
async function watchStates(page: Page): Promise<() => Promise<Readonly<Record<string, Shown>>>> {
  await page.evaluate(() => {
    const shown: Record<string, { answer: string; notice: string }> = {};
    Object.assign(window, { shown });
    const lastOf = (selector: string) => [...document.querySelectorAll<HTMLElement>(selector)].at(-1);
    new MutationObserver(() => {
      const name = document.body.dataset['state'] ?? '';
      const answer = lastOf('answer-text') as (HTMLElement & { source: string }) | undefined;
      shown[name] = { answer: answer?.source ?? '', notice: lastOf('#notice')?.textContent ?? '' };
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  });
  return () => page.evaluate(() => (window as unknown as { shown: Record<string, Shown> }).shown);
}

/** Records the lengths that an answer passes through; the returned function reads them. */
async function watchAnswer(page: Page): Promise<() => Promise<number[]>> {
  await page.evaluate(() => {
    const lengths: number[] = [];
    Object.assign(window, { lengths });
    new MutationObserver(() => {
      const length = document.querySelector('.answer .text')?.textContent?.length ?? 0;
      if (length !== lengths.at(-1)) lengths.push(length);
    }).observe(document.getElementById('log') as HTMLElement, { subtree: true, childList: true });
  });
  return () => page.evaluate(() => (window as unknown as { lengths: number[] }).lengths);
}

/** The numbers of bytes in the text of `selector`; from 10 kB on, rounded. */
async function numbers(page: Page, selector: string): Promise<number[]> {
  const texts = await page.locator(selector).allTextContents();
  return texts.flatMap((text) =>
    [...text.matchAll(/([\d,.]+)\s(k?)B/g)].map(
      ([, number = '', kilo]) => Number(number.replace(',', '')) * (kilo === '' ? 1 : 1000),
    ),
  );
}

/** The exact numbers of bytes of table cells. */
function figures(page: Page, selector: string): Promise<number[]> {
  return page.locator(selector).evaluateAll((cells) =>
    cells.flatMap((cell) => {
      const { bytes } = (cell as HTMLElement).dataset;
      return bytes === undefined ? [] : [Number(bytes)];
    }),
  );
}

/** How many turns the curves show, and which of them ends highest. */
function curveOf(page: Page): Promise<{ turns: number; isSteepest: string }> {
  return page.locator('#chart .line').evaluateAll((lines) => {
    const ends = lines.map((line) => {
      const points = (line.getAttribute('d') ?? '').slice(1).split('L');
      const [, y = ''] = (points.at(-1) ?? '').split(' ');
      return { turns: points.length - 1, y: Number(y), name: line.classList[1] ?? '' };
    });
    const [top] = ends.sort((a, b) => a.y - b.y);
    return { turns: top?.turns ?? 0, isSteepest: top?.name ?? '' };
  });
}

/** Runs in the page: the labels of the curves that lie on a line, or on each other. */
function coveredLabels(): string[] {
  const lines = [...document.querySelectorAll<SVGPathElement>('#chart .line')];
  const points = lines.flatMap((line) => {
    const length = line.getTotalLength();
    return Array.from({ length: 101 }, (_unused, i) => line.getPointAtLength((i / 100) * length));
  });
  const labels = [...document.querySelectorAll<SVGTextElement>('#chart text')];
  return labels.flatMap((label) => {
    const { x, y, width, height } = label.getBBox();
    const isOnLine = points.some((at) => at.x > x && at.x < x + width && at.y > y && at.y < y + height);
    const isOnLabel = labels.some((other) => {
      const box = other.getBBox();
      // Boxes are higher than their letters.
      const isBeside = box.x >= x + width || box.x + box.width <= x || Math.abs(box.y - y) > height * 0.8;
      return other !== label && !isBeside;
    });
    return isOnLine || isOnLabel ? [label.textContent ?? ''] : [];
  });
}

/** Lists elements that are wider than their box; there must be none. */
function overflowing(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    [document.documentElement, ...document.querySelectorAll<HTMLElement>('body, main, #log, #panel, #notice')]
      .filter(
        (element) => element.scrollWidth > element.clientWidth || element.clientWidth > window.innerWidth,
      )
      .map((element) => `${element.tagName}#${element.id}: ${element.scrollWidth} > ${element.clientWidth}`),
  );
}

function isFocused(element: Element): boolean {
  return element === document.activeElement;
}

function isInView(element: Element): boolean {
  const { top, bottom, left, right } = element.getBoundingClientRect();
  return top >= 0 && left >= 0 && bottom <= window.innerHeight && right <= window.innerWidth;
}

const question = (content: string) => ({ role: 'user', content }) as const;
const reply = (content: string) => ({ role: 'assistant', content }) as const;
const chat = (...messages: ChatRequest['messages']): ChatRequest => ({ model: 'gpt-4o', messages });

function deferred() {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
