import {
  decodeHttpRequest,
  encodeHttpResponse,
  type Part,
  type RequestContext,
  RequestError,
  type RequestHandler,
} from '@parlance/protocol';
import { admin, createServer, type Server, type ServerOptions } from '@parlance/server';
import type { BrowserContext, Page } from 'playwright-core';
import { expect } from 'vitest';
import { CHAT_OPTIONS } from '../../../examples/demo/chat-options.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { answerText, ask, type ChatPages, state } from '../kit/chat-driver.js';
import { serveFiles } from '../kit/chat-page.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { merged } from '../kit/server-options.js';

/** A chat page, a server that can be broken, a model that says what a test says, and all that people have read meanwhile. */

/** One answer, whose chunks the test releases. Each request gets all of them. */
export class Model {
  /** How many questions have reached it. */
  asked = 0;
  readonly #chunks: object[] = [];
  #isOver = false;
  #wake: (() => void)[] = [];

  say(delta: object, end: string | null = null): this {
    this.#chunks.push({
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, finish_reason: end }],
    });
    this.#proceed();
    return this;
  }

  /** Nothing follows. */
  stop(): void {
    this.#isOver = true;
    this.#proceed();
  }

  /** The last words, and the reason for the end. */
  end(reason = 'stop'): void {
    this.say({ content: 'the end.' }).say({}, reason).stop();
  }

  readonly onRequest: RequestHandler = (_request, context) => {
    if (decodeHttpRequest(context.metadata)?.path === '/v1/models')
      throw new RequestError('not_found', 'no list');
    return this.#answer(context);
  };

  async *#answer({ setMetadata }: RequestContext): AsyncGenerator<Part> {
    this.asked++;
    setMetadata(
      encodeHttpResponse({ status: 200, headers: new Map([['content-type', 'text/event-stream']]) }),
    );
    for (let i = 0; i < this.#chunks.length || !this.#isOver; i++) {
      while (i >= this.#chunks.length && !this.#isOver)
        await new Promise<void>((resolve) => this.#wake.push(resolve));
      if (i < this.#chunks.length) yield JSON.stringify(this.#chunks[i]);
    }
    yield '[DONE]';
  }

  #proceed(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

export interface StageOptions {
  /** @default the model answers, and answers are kept */
  readonly serve?: ((model: Model) => ServerOptions) | undefined;
  /** The page's clock is moved by the test. */
  readonly movesClock?: boolean | undefined;
  /** The name of the model that the page asks. @default the one that is given */
  readonly asks?: string | undefined;
}

/** The text of this page that is said at a break, and not what the model says. */
const SENTENCES =
  '#status, #light-rest, #notice-title, #notice-text, #countdown, #keys, .note, .mark, .remark, .answer > .muted';
export const ADMIN_TOKEN = 'the-operator-of-these-tests';

function keeping({ onRequest }: Model): ServerOptions {
  return { ...CHAT_OPTIONS, onRequest };
}

export class Stage {
  readonly model: Model;
  readonly proxy: CuttingProxy;
  readonly context: BrowserContext;
  readonly page: Page;
  server: Server;
  readonly #pages: ChatPages;
  readonly #options: ServerOptions;
  readonly #seen: Map<Page, Set<string>>;

  private constructor(given: Pick<Stage, 'model' | 'proxy' | 'context' | 'page' | 'server'>, rest: Rest) {
    this.model = given.model;
    this.proxy = given.proxy;
    this.context = given.context;
    this.page = given.page;
    this.server = given.server;
    this.#pages = rest.pages;
    this.#options = rest.options;
    this.#seen = rest.seen;
  }

  static async open(pages: ChatPages, { serve = keeping, movesClock, asks }: StageOptions): Promise<Stage> {
    const files = pages.use(await serveFiles(BUILT_PAGES));
    const model = new Model();
    const features = [admin({ token: ADMIN_TOKEN, mode: 'operate' })];
    const options = merged({ origins: [files.origin], onError() {}, features }, serve(model));
    const server = pages.use(createServer(options));
    const { port } = await server.listen();
    const proxy = pages.use(await createCuttingProxy(port));
    const context = await pages.browser.newContext({ viewport: { width: 1280, height: 800 } });
    pages.use({ [Symbol.asyncDispose]: () => context.close() });
    context.setDefaultTimeout(60_000);
    const seen = new Map<Page, Set<string>>();
    await context.exposeBinding('saw', ({ page }, texts: string[]) => {
      const known = seen.get(page) ?? new Set();
      seen.set(page, known);
      for (const text of texts) known.add(text);
    });
    await context.addInitScript(watchSentences, SENTENCES);
    const page = await context.newPage();
    if (movesClock === true) await page.clock.install();
    const query = new URLSearchParams({ server: `ws://127.0.0.1:${proxy.port}/session` });
    if (asks !== undefined) query.set('model', asks);
    await page.goto(`${files.origin}/?${query}`);
    await state(page, 'connected');
    return new Stage({ model, proxy, context, page, server }, { pages, options, seen });
  }

  /** Asks, and waits for the first words. */
  async reading(): Promise<void> {
    this.model.say({ content: 'First words, ' });
    await ask(this.page, 'Hello?');
    await expect.poll(() => answerText(this.page)).toBe('First words, ');
  }

  /** The sentences that a page has shown so far, each once. */
  said(page = this.page): string[] {
    return [...(this.#seen.get(page) ?? [])];
  }

  /** The browser's "Duplicate": a tab with a copy of this one's storage. */
  async duplicate(): Promise<Page> {
    const opened = this.context.waitForEvent('page');
    await this.page.evaluate(() => void window.open(location.href));
    const copy = await opened;
    await copy.waitForLoadState();
    // The script at its beginning has watched the empty document that was there before.
    await copy.evaluate(watchSentences, SENTENCES);
    return copy;
  }

  /** Another server in place of this one, which knows nothing of it. */
  async replace(): Promise<void> {
    this.server = this.#pages.use(createServer(this.#options));
    const { port } = await this.server.listen();
    this.proxy.redirect(port);
  }
}

interface Rest {
  readonly pages: ChatPages;
  readonly options: ServerOptions;
  readonly seen: Map<Page, Set<string>>;
}

/** Runs in the page: tells the test each visible sentence. */
function watchSentences(selector: string): void {
  const look = () => {
    const shown = [...document.querySelectorAll<HTMLElement>(selector)].filter((each) =>
      each.checkVisibility(),
    );
    const texts = shown.map(({ textContent }) => (textContent ?? '').trim()).filter((text) => text !== '');
    (window as unknown as { saw(texts: string[]): void }).saw(texts);
  };
  const options = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(look).observe(document, options);
  look();
}
