import { expect, it } from 'vitest';
import type { ChatSuite } from './chat-suite.js';
import { words } from './model.js';

/** Registers the tests of `useChat` that hold for each transport over a WebSocket. */
export function chatCases(suite: ChatSuite): void {
  const { open } = suite;

  it('streams an answer with metadata, and tells both ends how it ended', async () => {
    const tab = await open();
    const { text, status, messages, ended } = await tab.ask('words 40');
    expect({ text, status }).toEqual({ text: words(40), status: 'ready' });
    expect(messages[1]?.metadata).toEqual({ startedBy: 'the server' });
    expect(ended).toEqual([{ isAbort: false, isDisconnect: false, isError: false, finishReason: 'stop' }]);
    expect((await suite.app.state()).finished).toEqual([
      { chat: suite.chat, isAborted: false, isContinuation: false, text: words(40), messages: 2 },
    ]);
  });

  it('runs tools of the page, and continues the same message', async () => {
    const tab = await open();
    await tab.send('location 3');
    const { messages, toolCalls } = await tab.done(2);
    expect(messages).toHaveLength(2);
    expect(toolCalls).toBe(1);
    const parts = await tab.parts();
    expect(parts.map(({ type }) => type)).toEqual([
      'step-start',
      'text',
      'tool-location',
      'step-start',
      'text',
    ]);
    expect(parts[2]).toMatchObject({ state: 'output-available', output: 'Bergen' });
    expect((await suite.app.state()).finished.map(({ isContinuation }) => isContinuation)).toEqual([
      false,
      true,
    ]);
  });

  it('keeps the parts before a tool when a continued answer is followed', async () => {
    const tab = await open({ resume: true });
    await tab.send('location 300');
    await expect.poll(async () => (await suite.app.state()).words).toBeGreaterThan(20);
    await tab.reads(20);
    await tab.reload();
    await tab.done();
    const parts = await tab.parts();
    expect(parts.map(({ type }) => type)).toEqual([
      'step-start',
      'text',
      'tool-location',
      'step-start',
      'text',
    ]);
    expect(parts[2]).toMatchObject({
      state: 'output-available',
      input: { city: 'Oslo' },
      output: 'Bergen',
    });
    expect(parts[4]?.['text']).toMatch(words(300));
    expect((await tab.state()).toolCalls).toBe(0);
    expect((await tab.state()).messages).toHaveLength(2);
  });

  it('shows an answer in a second tab of the same user, which may stop it', async () => {
    const one = await open();
    await one.send('words 4000');
    await one.reads(5);
    const two = await open({ resume: true });
    const stranger = await open({ resume: true, user: 'berta' });
    await two.reads(10);
    expect((await stranger.state()).messages).toEqual([]);
    await two.stop();
    await expect.poll(async () => (await suite.app.state()).aborted).toBe(1);
    const { status, error, text } = await one.done();
    expect({ status, error }).toEqual({ status: 'ready', error: undefined });
    expect(text).toBe(words(text.split(' ').length - 1));
  });

  it('finishes on the server when the page is closed', async () => {
    const tab = await open();
    await tab.send('words 300');
    await tab.reads(5);
    await tab.page.close();
    await expect
      .poll(async () => (await suite.app.state()).finished)
      .toMatchObject([{ isAborted: false, text: words(300), messages: 2 }]);
  });
}
