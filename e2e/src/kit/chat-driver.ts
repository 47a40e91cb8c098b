import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { launchChromium, type OpenPage, openPage } from './chat-page.js';

/** The common means of the tests of the chat page: a browser, and the actions of people. */

export class ChatPages {
  readonly #open: AsyncDisposable[] = [];
  #browser: Browser | undefined;

  /** Starts the browser before the tests of this `describe`; what a test {@link use}s ends with it. */
  static use(): ChatPages {
    const pages = new ChatPages();
    beforeAll(async () => {
      pages.#browser = await launchChromium();
    });
    afterEach(async () => {
      for (const each of pages.#open.splice(0).reverse()) await each[Symbol.asyncDispose]();
    });
    afterAll(async () => {
      await pages.#browser?.close();
    });
    return pages;
  }

  get browser(): Browser {
    return this.#browser ?? expect.fail('the browser starts before the tests');
  }

  use<Resource extends AsyncDisposable>(resource: Resource): Resource {
    this.#open.push(resource);
    return resource;
  }

  async visit(url: string, options?: BrowserContextOptions): Promise<OpenPage> {
    return this.use(await openPage(this.browser, url, options));
  }
}

/** Waits until the page shows this state of its session. */
export async function state(page: Page, name: string): Promise<void> {
  await page.locator(`body[data-state="${name}"]`).waitFor();
}

export async function ask(page: Page, text: string): Promise<void> {
  await page.getByLabel('Your message').fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

/** Waits until this many turns are answered completely. */
export async function finished(page: Page, turns: number): Promise<void> {
  await expect.poll(() => page.locator('.answer[data-state="done"]').count()).toBe(turns);
}

/** The answers of the model, as the page copies them, by turn. */
export function answerTexts(page: Page): Promise<string[]> {
  return page
    .locator('answer-text')
    .evaluateAll((texts) => texts.map((text) => (text as HTMLElement & { source: string }).source));
}

/** The text of the model's last answer. */
export async function answerText(page: Page): Promise<string> {
  return (await answerTexts(page)).at(-1) ?? '';
}
