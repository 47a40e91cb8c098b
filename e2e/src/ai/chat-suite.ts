import { fileURLToPath } from 'node:url';
import * as ai6 from 'ai';
import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../../../scripts/chromium.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type ChatApp, startChatApp } from './chat-app.js';
import { ChatFork } from './chat-fork.js';
import { ChatTab, type Query } from './chat-tab.js';
import { folderOf, installNode22, node22Missing } from './node-22.js';

/** Pages with the real `useChat` in Chromium, and a server with the real `streamText`, for each test of a block. */

/** A version of the AI SDK. */
export interface AiVersion {
  /** Why its tests cannot run here. */
  readonly missing: string | undefined;
  install(): Promise<void>;
  start(fork: ChatFork, origin: string): Promise<ChatApp>;
  /** Packages of the page, and their folders. */
  readonly alias: Readonly<Record<string, string>>;
}

/** @throws {Error} in CI, if Chromium or Node 22 is missing there. */
function required(missing: string | undefined): string | undefined {
  if (missing === undefined) return undefined;
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped tests of useChat: ${missing}`);
  return missing;
}

export const AI_6: AiVersion = {
  missing: required(chromiumMissing()),
  install: async () => {},
  start: (_fork, origin) => startChatApp(ai6, [origin]),
  alias: {},
};

export const AI_7: AiVersion = {
  missing: required(chromiumMissing() ?? node22Missing()),
  install: installNode22,
  start: (fork, origin) => fork.start(origin),
  alias: Object.fromEntries(
    ['ai', '@ai-sdk/react', 'react', 'react-dom'].map((name) => [name, folderOf(name)]),
  ),
};

type Place = Pick<ChatApp, 'url' | 'api'>;

export interface ChatSuite {
  /** Of the present test. */
  readonly app: ChatApp;
  /** Of the present test. */
  readonly chat: string;
  /** Opens a page with the chat of this test. */
  open(query?: Partial<Query>, at?: Place): Promise<ChatTab>;
  /** Between pages and the sessions of the server. */
  proxied(): Promise<CuttingProxy & { readonly at: Place }>;
}

/**
 * Registers what starts and stops the browser, the server and the pages of a block of tests.
 *
 * @param queryOf what each page of the block is opened with. @default nothing
 */
export function chatSuite(
  version: AiVersion,
  queryOf: (app: ChatApp) => Partial<Query> = () => ({}),
): ChatSuite {
  const fork = new ChatFork();
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  let app: ChatApp;
  let context: BrowserContext;
  let chats = 0;

  beforeAll(async () => {
    await version.install();
    const page = fileURLToPath(new URL('./chat-page.ts', import.meta.url));
    bundle = await bundleFile(page, { fromSource: true, alias: version.alias });
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
    chats++;
    app = await version.start(fork, files.origin);
    context = await browser.newContext();
    context.setDefaultTimeout(60_000);
  });
  afterEach(async () => {
    await context.close();
    await app[Symbol.asyncDispose]();
  });

  const chat = () => `chat ${chats}`;
  return {
    get app() {
      return app;
    },
    get chat() {
      return chat();
    },
    open: (query = {}, at = app) =>
      ChatTab.open(context, files.origin, at, { chat: chat(), ...queryOf(app), ...query }),
    async proxied() {
      const proxy = await createCuttingProxy(Number(new URL(app.url).port));
      const at = { url: app.url.replace(/:\d+/, `:${proxy.port}`), api: app.api };
      return Object.assign(proxy, { at });
    },
  };
}
