import { fileURLToPath } from 'node:url';
import { createServer, type ServerOptions } from '@parlance/server';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { launchChromium, openPage } from './chat-page.js';

/** A page that runs the scenario that its URL names, and leaves the result as JSON in `data-result` of its body. */
export class ScenarioPage {
  #browser: Browser | undefined;
  #bundle: Bundle | undefined;
  #files: StaticFiles | undefined;

  /** Opens it before the tests of this `describe`. */
  static use(module: URL): ScenarioPage {
    const page = new ScenarioPage();
    beforeAll(async () => {
      page.#bundle = await bundleFile(fileURLToPath(module), { fromSource: true });
      page.#files = await serveCompressed(page.#bundle.folder);
      page.#browser = await launchChromium();
    });
    afterAll(async () => {
      await page.#browser?.close();
      await page.#files?.[Symbol.asyncDispose]();
      await page.#bundle?.[Symbol.asyncDispose]();
    });
    return page;
  }

  get bundle(): Bundle {
    if (this.#bundle === undefined) throw new Error('the page is built before the tests');
    return this.#bundle;
  }

  /** Serves the files of the bundle as they are now: they are read when they are served. */
  async serveAgain(): Promise<void> {
    await this.#files?.[Symbol.asyncDispose]();
    this.#files = await serveCompressed(this.bundle.folder);
  }

  /** Of the page. */
  get origin(): string {
    if (this.#files === undefined) throw new Error('the page is served before the tests');
    return this.#files.origin;
  }

  /** Runs a scenario in a new page, against a server of its own. */
  async run(scenario: string, options: ServerOptions): Promise<unknown> {
    await using server = createServer({ origins: [this.origin], ...options });
    const { url } = await server.listen();
    return await this.show(scenario, url);
  }

  /** Runs a scenario in a new page. @param server its URL. */
  async show(scenario: string, server: string): Promise<unknown> {
    const [browser, files] = [this.#browser, this.#files];
    if (browser === undefined || files === undefined) throw new Error('the page is opened before the tests');
    const query = new URLSearchParams({ server, scenario });
    await using opened = await openPage(browser, `${files.origin}/?${query}`);
    const body = opened.page.locator('body[data-result]');
    await body.waitFor({ state: 'attached' });
    return JSON.parse((await body.getAttribute('data-result')) ?? '');
  }
}
