import { describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { chatCases } from './chat-cases.js';
import { AI_7, chatSuite } from './chat-suite.js';
import { words } from './model.js';

/** The real `useChat` with the AI SDK's own `WebSocketChatTransport` in Chromium, at a server with `chatSocket`. */

describe('WebSocketChatTransport of the AI SDK', () => {
  it.runIf(AI_7.missing !== undefined)('is not tested here', ({ skip }) => skip(AI_7.missing));
  if (AI_7.missing !== undefined) return;

  const suite = chatSuite(AI_7, ({ socket }) => ({ socket }));
  const { open } = suite;
  chatCases(suite);

  it('carries the body, headers, metadata and files', async () => {
    const tab = await open();
    await tab.page.evaluate(() => {
      const file = new File([new Uint8Array(200_000).fill(7)], 'seven.png', { type: 'image/png' });
      const transfer = new DataTransfer();
      transfer.items.add(file);
      const headers = { 'x-custom': 'of the request' };
      const options = { body: { own: [1, 2] }, metadata: { mood: 'good' }, headers };
      void window.chatTest.chat?.sendMessage({ text: 'echo', files: transfer.files }, options);
    });
    await tab.done();
    expect((await tab.parts()).at(-1)).toMatchObject({
      data: { body: { fixed: 1, own: [1, 2] }, custom: 'of the request', metadata: { mood: 'good' } },
    });
  });

  it.each([
    ['status 429', 'the model gets too many requests'],
    ['refuse', 'buy more'],
  ])('shows why a request failed: %s', async (text, message) => {
    const tab = await open();
    const { status, error } = await tab.ask(text);
    expect({ status, error }).toMatchObject({ status: 'error', error: { message } });
    // And continues over the same WebSocket.
    expect((await tab.ask('words 2')).text).toBe(words(2));
  });

  it('shows the whole answer after the page was loaded again, and stops the model from there', async () => {
    const tab = await open({ resume: true });
    await tab.send('words 300');
    await tab.reads(20);
    await tab.reload();
    const { text, status, messages } = await tab.done();
    expect({ text, status, messages: messages.length }).toEqual({
      text: words(300),
      status: 'ready',
      messages: 2,
    });
    expect((await suite.app.state()).finished).toMatchObject([{ isAborted: false, text: words(300) }]);

    await tab.send('words 4000');
    await tab.reads(5);
    await tab.reload();
    await tab.reads(5);
    await tab.stop();
    await expect.poll(async () => (await suite.app.state()).aborted).toBe(1);
    await tab.shows({ status: 'ready' });
  });

  it('follows the answer again after a cut, when the page asks for it, also twice in a row', async () => {
    const proxy = await createCuttingProxy(Number(new URL(suite.app.socket).port));
    const socket = suite.app.socket.replace(/:\d+/, `:${proxy.port}`);
    const tab = await open({ socket });
    await tab.send('words 300');
    await tab.reads(20);
    proxy.cut();
    expect((await tab.done()).ended).toMatchObject([{ isDisconnect: true }]);
    // The second call aborts what the first one follows.
    await tab.page.evaluate(() => {
      void window.chatTest.chat?.resumeStream();
      setTimeout(() => void window.chatTest.chat?.resumeStream(), 50);
    });
    await expect.poll(async () => (await tab.state()).text).toBe(words(300));
    expect((await suite.app.state()).finished).toMatchObject([{ isAborted: false, text: words(300) }]);
    await proxy[Symbol.asyncDispose]();
  });
});
