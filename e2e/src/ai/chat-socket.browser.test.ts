import { fileURLToPath } from 'node:url';
import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../../../scripts/chromium.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import type { ChatApp } from './chat-app.js';
import { ChatFork } from './chat-fork.js';
import { ChatTab, type Query } from './chat-tab.js';
import { words } from './model.js';
import { folderOf, installNode22, node22Missing } from './node-22.js';

/** The real `useChat` with the AI SDK's own `WebSocketChatTransport` in Chromium, at a server with `chatSocket`. */

const missing = chromiumMissing() ?? node22Missing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of WebSocketChatTransport: ${missing}`);
}

describe.skipIf(missing !== undefined)('WebSocketChatTransport of the AI SDK', () => {
  const fork = new ChatFork();
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  let app: ChatApp;
  let context: BrowserContext;
  let chats = 0;
  let chat: string;

  beforeAll(async () => {
    await installNode22();
    const names = ['ai', '@ai-sdk/react', 'react', 'react-dom'];
    const alias = Object.fromEntries(names.map((name) => [name, folderOf(name)]));
    const page = fileURLToPath(new URL('./chat-page.ts', import.meta.url));
    bundle = await bundleFile(page, { fromSource: true, alias });
    files = await serveCompressed(bundle.folder);
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
    await fork.stop();
  });
  beforeEach(async () => {
    app = await fork.start(files.origin);
    context = await browser.newContext();
    context.setDefaultTimeout(60_000);
    chat = `chat ${++chats}`;
  });
  afterEach(async () => {
    await context.close();
    await app[Symbol.asyncDispose]();
  });

  const open = (query: Partial<Query> = {}) =>
    ChatTab.open(context, files.origin, app, { chat, socket: app.socket, ...query });

  it('streams an answer with metadata, and tells both ends how it ended', async () => {
    const tab = await open();
    const { text, status, messages, ended } = await tab.ask('words 40');
    expect({ text, status }).toEqual({ text: words(40), status: 'ready' });
    expect(messages[1]?.metadata).toEqual({ startedBy: 'the server' });
    expect(ended).toEqual([{ isAbort: false, isDisconnect: false, isError: false, finishReason: 'stop' }]);
    expect((await app.state()).finished).toEqual([
      { chat, isAborted: false, isContinuation: false, text: words(40), messages: 2 },
    ]);
  });

  it('runs tools of the page, and continues the same message', async () => {
    const tab = await open();
    await tab.send('location 3');
    const { messages, toolCalls } = await tab.done(2);
    expect([messages.length, toolCalls]).toEqual([2, 1]);
    expect((await tab.parts())[2]).toMatchObject({ state: 'output-available', output: 'Bergen' });
  });

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
    // And goes on over the same WebSocket.
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
    expect((await app.state()).finished).toMatchObject([{ isAborted: false, text: words(300) }]);

    await tab.send('words 4000');
    await tab.reads(5);
    await tab.reload();
    await tab.reads(5);
    await tab.stop();
    await expect.poll(async () => (await app.state()).aborted).toBe(1);
    await tab.shows({ status: 'ready' });
  });

  it('keeps the parts before a tool when a continued answer is followed', async () => {
    const tab = await open({ resume: true });
    await tab.send('location 300');
    await expect.poll(async () => (await app.state()).words).toBeGreaterThan(20);
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
    expect(parts[4]?.['text']).toMatch(words(300));
    expect((await tab.state()).toolCalls).toBe(0);
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
    await expect.poll(async () => (await app.state()).aborted).toBe(1);
    const { status, error, text } = await one.done();
    expect({ status, error }).toEqual({ status: 'ready', error: undefined });
    expect(text).toBe(words(text.split(' ').length - 1));
  });

  it('follows the answer again after a cut, when the page asks for it, also twice in a row', async () => {
    const proxy = await createCuttingProxy(Number(new URL(app.socket).port));
    const socket = app.socket.replace(/:\d+/, `:${proxy.port}`);
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
    expect((await app.state()).finished).toMatchObject([{ isAborted: false, text: words(300) }]);
    await proxy[Symbol.asyncDispose]();
  });

  it('leaves an answer when its page is closed', async () => {
    const tab = await open();
    await tab.send('words 300');
    await tab.reads(5);
    await tab.page.close();
    await expect
      .poll(async () => (await app.state()).finished)
      .toMatchObject([{ isAborted: false, text: words(300) }]);
  });
});
