import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { createServer, type ServerOptions } from '@parlance/server';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium, openPage } from './chat-page.js';

/** Pages that fetch over their session, and pages that answer. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of HTTP in pages: ${missing}`);
}

const MIB = 1024 * 1024;

const SERVER: ServerOptions = {
  limits: { bytesPerSecond: Infinity },
  async onFetch(request) {
    if (new URL(request.url).pathname === '/echo') return new Response(request.body);
    const form = await request.formData();
    const file = form.get('file') as File;
    const content = Buffer.from(await file.arrayBuffer());
    const hash = createHash('sha256').update(content).digest('hex');
    return Response.json({ name: file.name, type: file.type, size: file.size, text: form.get('text'), hash });
  },
};

describe.skipIf(missing !== undefined)('a page', () => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;

  beforeAll(async () => {
    const page = fileURLToPath(new URL('./http-page.ts', import.meta.url));
    bundle = await bundleFile(page, { fromSource: true });
    files = await serveCompressed(bundle.folder);
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
  });

  async function run(scenario: string, options: ServerOptions = SERVER): Promise<unknown> {
    const server = createServer({ origins: [files.origin], ...options });
    try {
      const { url } = await server.listen();
      const query = new URLSearchParams({ server: url, scenario });
      await using opened = await openPage(browser, `${files.origin}/?${query}`);
      const body = opened.page.locator('body[data-result]');
      await body.waitFor({ state: 'attached' });
      return JSON.parse((await body.getAttribute('data-result')) ?? '');
    } finally {
      await server.close();
    }
  }

  const sent = (size: number) => ({
    name: 'Lärm.mp3',
    type: 'audio/mpeg',
    size,
    text: 'Grüße',
    isEqual: true,
  });

  it('sends forms with files, small and streamed', async () => {
    expect(await run('forms')).toEqual({ result: [sent(10_000), sent(3 * MIB)] });
  });

  it('sends bytes, files, streams and requests', async () => {
    expect(await run('bodies')).toEqual({ result: [true, true, true, true, true] });
  });

  it('sends a form whole over a session that tabs share', async () => {
    expect(await run('shared')).toEqual({ result: sent(3 * MIB) });
  });

  it('answers its server', async () => {
    const got: unknown[] = [];
    const result = await run('serving', {
      limits: { bytesPerSecond: Infinity },
      async onSession(session) {
        for await (const message of session) {
          got.push(message.text);
          got.push(await (await session.fetch('/title')).json());
          const bytes = Buffer.alloc(3 * MIB, 'abc');
          const body = new Blob([bytes]).stream();
          const init = { method: 'POST', body, ...({ duplex: 'half' } as RequestInit) };
          const hash = createHash('sha256').update(bytes).digest('hex');
          got.push((await (await session.fetch('/hash', init)).text()) === hash);
          got.push(await (await session.fetch('/events')).text());
          const controller = new AbortController();
          const asking = session.fetch('/never', { signal: controller.signal });
          asking.catch(() => {});
          // The requests before were answered, so that this one is being handled when another is.
          await session.fetch('/title');
          controller.abort();
        }
      },
    });
    expect(result).toEqual({ result: 'aborted' });
    const page = { title: 'a page', id: expect.any(String) };
    expect(got).toEqual(['ready', page, true, 'event: hi\ndata: from the page\n\n']);
  });
});
