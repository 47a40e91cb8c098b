import type { BrowserContext, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { ChatApp } from './chat-app.js';

/** A page with `useChat`, driven from a test. */

type State = Window['chatTest']['state'];

/** Types of the AI SDK depend on tools and data that a generic test does not name. */
interface Part {
  readonly type: string;
  readonly state?: string;
  readonly output?: unknown;
  readonly approval?: { readonly id: string };
  readonly [key: string]: unknown;
}

export interface Query {
  readonly chat: string;
  readonly user?: string;
  /** Takes the session up after a reload. */
  readonly store?: true;
  readonly resume?: true;
  /** The chats are those of `sessionChats`. */
  readonly kept?: true;
  /** The page stores messages while they are being written. */
  readonly partial?: true;
  /** Uses the default transport. */
  readonly isHttp?: boolean;
  /** The URL of `WebSocketChatTransport`, which is used. */
  readonly socket?: string;
}

export class ChatTab {
  readonly page: Page;

  private constructor(page: Page) {
    this.page = page;
  }

  static async open(
    context: BrowserContext,
    origin: string,
    { url, api }: Pick<ChatApp, 'url' | 'api'>,
    { isHttp = false, ...query }: Query,
  ): Promise<ChatTab> {
    const page = await context.newPage();
    const all = { server: url, ...query, ...(isHttp && { http: api }) };
    const search = new URLSearchParams(Object.entries(all).map(([name, value]) => [name, String(value)]));
    await page.goto(`${origin}/?${search}`);
    const tab = new ChatTab(page);
    await tab.isRendered();
    return tab;
  }

  async isRendered(): Promise<void> {
    await expect.poll(async () => (await this.state()).status).not.toBe('none');
  }

  state(): Promise<State> {
    return this.page.evaluate(() => window.chatTest.state);
  }

  async reload(): Promise<void> {
    await this.page.reload();
    await this.isRendered();
  }

  /** Does not wait for the answer. */
  send(text: string, options?: { readonly body?: object; readonly metadata?: unknown }): Promise<void> {
    return this.page.evaluate(
      ([sent, given]) => void window.chatTest.chat?.sendMessage({ text: sent }, given),
      [text, options] as const,
    );
  }

  async ask(text: string, options?: { readonly body?: object; readonly metadata?: unknown }): Promise<State> {
    await this.send(text, options);
    return await this.done();
  }

  /** Shows another page of the application, or that of the chat again. */
  show(isShown: boolean): Promise<void> {
    return this.page.evaluate((value) => window.chatTest.show(value), isShown);
  }

  stop(): Promise<void> {
    return this.page.evaluate(() => window.chatTest.chat?.stop());
  }

  /** Waits until the page shows this: an abort at the server may be seen before its page has rendered the end. */
  async shows(expected: Partial<State>): Promise<void> {
    await expect.poll(() => this.state()).toMatchObject(expected);
  }

  /** Waits until the answer has `words` words. */
  async reads(words: number): Promise<void> {
    await expect
      .poll(async () => (await this.state()).text.split(' ').length - 1)
      .toBeGreaterThanOrEqual(words);
  }

  /** Waits until all answers are over. */
  async done(count = 1): Promise<State> {
    await expect.poll(async () => (await this.state()).ended.length).toBeGreaterThanOrEqual(count);
    await expect.poll(async () => (await this.state()).status).toMatch(/ready|error/);
    return await this.state();
  }

  /** The parts of the last message. */
  async parts(): Promise<Part[]> {
    const { messages } = await this.state();
    return (messages.at(-1)?.parts ?? []) as unknown as Part[];
  }
}
