import { describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { chatCases } from './chat-cases.js';
import { AI_6, AI_7, chatSuite } from './chat-suite.js';
import { words } from './model.js';

/** The real `useChat` in Chromium, over sessions and over HTTP, against the real `streamText`. */

describe.each([
  ['6', AI_6],
  ['7', AI_7],
])('useChat of version %s over a session', (_, version) => {
  it.runIf(version.missing !== undefined)('is not tested here', ({ skip }) => skip(version.missing));
  if (version.missing !== undefined) return;

  const suite = chatSuite(version);
  const { open, proxied } = suite;
  chatCases(suite);

  it('keeps a conversation, and regenerates an answer', async () => {
    const tab = await open();
    await tab.ask('words 3');
    await tab.ask('words 4');
    const [, first, , second] = (await tab.state()).messages;
    await tab.page.evaluate(() => window.chatTest.chat?.regenerate());
    const { messages, text } = await tab.done(3);
    expect(text).toBe(words(4));
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(messages[1]?.id).toBe(first?.id);
    expect(messages[3]?.id).not.toBe(second?.id);
    expect((await suite.app.state()).prompts.at(-1)).toBe(3);
  });

  it('runs tools of the server', async () => {
    const tab = await open();
    await tab.ask('weather 3');
    const parts = await tab.parts();
    expect(parts.map(({ type }) => type)).toEqual([
      'step-start',
      'text',
      'tool-weather',
      'step-start',
      'text',
    ]);
    expect(parts[2]).toMatchObject({ state: 'output-available', output: { city: 'Oslo', sky: 'blue' } });
  });

  it.each([true, false])('asks before a tool runs: %s', async (approved) => {
    const tab = await open();
    await tab.ask('erase 3');
    const tool = (await tab.parts()).find(({ type }) => type === 'tool-erase');
    expect(tool?.state).toBe('approval-requested');
    const answer = { id: tool?.approval?.id ?? '', approved };
    await tab.page.evaluate((given) => void window.chatTest.chat?.addToolApprovalResponse(given), answer);
    await tab.done(2);
    const after = (await tab.parts()).find(({ type }) => type === 'tool-erase');
    expect(after).toMatchObject(
      approved ? { state: 'output-available', output: { erased: 'Oslo' } } : { state: 'output-denied' },
    );
  });

  it('carries data parts, the body, headers, metadata and files', async () => {
    const tab = await open();
    await tab.page.evaluate(() => {
      const file = new File([new Uint8Array(200_000).fill(7)], 'seven.png', { type: 'image/png' });
      const transfer = new DataTransfer();
      transfer.items.add(file);
      const headers = { 'x-custom': 'of the request' };
      const options = { body: { own: [1, 2] }, metadata: { mood: 'good' }, headers };
      void window.chatTest.chat?.sendMessage({ text: 'echo', files: transfer.files }, options);
    });
    const { data } = await tab.done();
    const parts = await tab.parts();
    expect(parts).toEqual([
      { type: 'data-step', id: 'one', data: { done: 2 } },
      {
        type: 'data-echo',
        data: {
          body: { fixed: 1, own: [1, 2] },
          custom: 'of the request',
          metadata: { mood: 'good' },
          files: [`image/png seven.png ${'data:image/png;base64,'.length + Math.ceil(200_000 / 3) * 4}`],
        },
      },
    ]);
    expect(data).toContainEqual({ type: 'data-note', data: { note: 'transient' }, transient: true });
  });

  it('refuses a file beyond the limit of a message, and continues', async () => {
    const tab = await open();
    await tab.page.evaluate(() => {
      const url = `data:image/png;base64,${'A'.repeat(17 * 1024 * 1024)}`;
      void window.chatTest.chat?.sendMessage({
        text: 'echo',
        files: [{ type: 'file', mediaType: 'image/png', url }],
      });
    });
    expect((await tab.done()).error).toMatchObject({ code: 'message_too_large' });
    await tab.page.evaluate(() => window.chatTest.chat?.setMessages([]));
    expect((await tab.ask('words 2')).text).toBe(words(2));
  });

  it.each([
    ['status 429', { code: 'rate_limited', retryable: true, retryAfterMs: 7_000, data: { status: 429 } }],
    ['status 503', { code: 'upstream_status', retryable: true, data: { status: 503 } }],
    ['status 401', { code: 'upstream_status', retryable: false, data: { status: 401 } }],
    ['refuse', { code: 'no_credit', message: 'buy more', data: { missing: 3 } }],
  ])('shows a failure with its code: %s', async (text, expected) => {
    const tab = await open();
    const { status, error, ended } = await tab.ask(text);
    expect({ status, error }).toMatchObject({
      status: 'error',
      error: { name: 'RequestError', ...expected },
    });
    expect(JSON.stringify(error)).not.toMatch(/sk-secret|provider\.example/);
    expect(ended).toEqual([{ isAbort: false, isDisconnect: false, isError: true }]);
  });

  it('stops the model, also after the page was loaded again', async () => {
    const tab = await open({ resume: true });
    await tab.send('words 4000');
    await tab.reads(5);
    await tab.stop();
    await expect.poll(async () => (await suite.app.state()).aborted).toBe(1);
    await expect.poll(async () => (await suite.app.state()).finished).toMatchObject([{ isAborted: true }]);
    await tab.shows({ status: 'ready' });

    await tab.send('words 4000');
    await tab.reads(5);
    await tab.reload();
    await tab.reads(5);
    await tab.stop();
    await expect.poll(async () => (await suite.app.state()).aborted).toBe(2);
    await tab.shows({ status: 'ready' });
  });

  it.each([{}, { store: true }, { partial: true }] as const)(
    'continues an answer after the page was loaded again: %j',
    async (query) => {
      const tab = await open({ resume: true, ...query });
      await tab.ask('words 2');
      await tab.send('words 300');
      await tab.reads(20);
      await tab.reload();
      const { text, messages, status } = await tab.done();
      expect({ text, status }).toEqual({ text: words(300), status: 'ready' });
      expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
      expect((await suite.app.state()).finished.at(-1)).toMatchObject({ isAborted: false, text: words(300) });
      expect((await suite.app.state()).words).toBe(302);
      // Nothing runs any more.
      await tab.reload();
      await tab.page.evaluate(() => window.chatTest.chat?.resumeStream());
      await tab.shows({ status: 'ready', ended: [] });
      expect((await tab.state()).messages).toHaveLength(4);
    },
  );

  it('continues an answer whose page the user leaves, if its chat is kept, and stops it with stop()', async () => {
    const tab = await open({ kept: true, resume: true });
    await tab.send('words 300');
    await tab.reads(20);
    await tab.show(false);
    await expect
      .poll(async () => (await suite.app.state()).finished)
      .toMatchObject([{ isAborted: false, text: words(300) }]);
    await tab.show(true);
    await tab.isRendered();
    expect(await tab.done()).toMatchObject({ status: 'ready', text: words(300) });
    // And back before its end.
    await tab.send('words 4000');
    await tab.reads(5);
    await tab.show(false);
    await tab.show(true);
    await tab.isRendered();
    await tab.reads(20);
    await tab.shows({ status: 'streaming' });
    expect((await suite.app.state()).aborted).toBe(0);
    await tab.stop();
    await expect.poll(async () => (await suite.app.state()).aborted).toBe(1);
    await tab.shows({ status: 'ready' });
  });

  it('leaves the answer of a first tab alone when a second one, which has only looked, shows another page', async () => {
    const one = await open({ kept: true });
    await one.send('words 300');
    await one.reads(5);
    const two = await open({ kept: true, resume: true });
    await two.reads(5);
    await two.show(false);
    expect(await one.done()).toMatchObject({ status: 'ready', text: words(300) });
    expect((await suite.app.state()).finished).toMatchObject([{ isAborted: false, text: words(300) }]);
  });

  describe('beside the default transport', () => {
    it('completes an answer whose connection is cut; the default transport does not', async () => {
      await using proxy = await proxied();
      await using http = await createCuttingProxy(Number(new URL(suite.app.api).port));
      const at = { ...proxy.at, api: suite.app.api.replace(/:\d+/, `:${http.port}`) };
      const [ours, theirs] = await Promise.all([open({}, at), open({ chat: 'theirs', isHttp: true }, at)]);
      for (const tab of [ours, theirs]) await tab.send('words 300');
      for (const tab of [ours, theirs]) await tab.reads(20);
      proxy.cut();
      http.cut();
      const [complete, failed] = [await ours.done(), await theirs.done()];
      expect(complete).toMatchObject({ status: 'ready', text: words(300) });
      expect(failed).toMatchObject({ status: 'error', ended: [{ isError: true }] });
      expect(failed.text.length).toBeLessThan(words(300).length);
      expect(words(300).startsWith(failed.text)).toBe(true);
    });

    it('stops the model, as the default transport does', async () => {
      const tabs = [await open(), await open({ chat: 'theirs', isHttp: true })];
      for (const tab of tabs) await tab.send('words 4000');
      for (const tab of tabs) await tab.reads(5);
      for (const tab of tabs) await tab.stop();
      await expect.poll(async () => (await suite.app.state()).aborted).toBe(2);
      for (const tab of tabs) expect((await tab.done()).ended).toMatchObject([{ isAbort: true }]);
    });

    it('continues after a reload; the default transport loses the answer', async () => {
      const [ours, theirs] = [
        await open({ resume: true }),
        await open({ chat: 'theirs', resume: true, isHttp: true }),
      ];
      for (const tab of [ours, theirs]) await tab.send('words 300');
      for (const tab of [ours, theirs]) await tab.reads(20);
      for (const tab of [ours, theirs]) await tab.reload();
      expect(await ours.done()).toMatchObject({ status: 'ready', text: words(300) });
      await theirs.shows({ status: 'ready', ended: [] });
      expect((await theirs.state()).text.length).toBeLessThan(words(300).length);
    });
  });
});
