import { copyFile, readdir } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createServer, httpStream, type Server, type ServerSession } from '@parlance/server';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { createCertificate, nginxWith, proxyMissing, startProxyWith } from '../proxies/proxy-server.js';

/** Sessions over HTTP in a browser, in a network that refuses WebSockets. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of sessions over HTTP in pages: ${missing}`);
}

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));

describe.skipIf(missing !== undefined)('a page whose network refuses WebSockets', () => {
  let browser: Browser;
  let bundle: Bundle;
  /** The page at an origin of its own. */
  let files: StaticFiles;
  let context: BrowserContext;
  let server: Server;
  /** The page and the sessions at one origin, where upgrades are refused. */
  let front: { readonly port: number } & AsyncDisposable;
  let proxy: CuttingProxy;
  let sessions: ServerSession[];
  let requests: { readonly method: string; readonly path: string; readonly type: string | undefined }[];
  let stopped: string[];

  beforeAll(async () => {
    bundle = await bundleFile(source('../resume/reload-page.ts'), { fromSource: true });
    await using worker = await bundleFile(source('../../../packages/client/src/shared-worker.ts'), {
      fromSource: true,
    });
    for (const name of await readdir(worker.folder))
      if (name.endsWith('.js')) await copyFile(join(worker.folder, name), join(bundle.folder, name));
    files = await serveCompressed(bundle.folder);
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    [sessions, requests, stopped] = [[], [], []];
    server = createServer({
      features: [httpStream()],
      limits: UNLIMITED,
      origins: [files.origin],
      async onSession(session) {
        sessions.push(session);
        for await (const { text } of session) await session.send(`heard ${text}`);
      },
      async *onRequest({ text }, { signal }) {
        signal.addEventListener('abort', () => stopped.push(text));
        for (let i = 0; i < Number(text) && !signal.aborted; i++) {
          yield `${i} `;
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
      },
    });
    front = await host();
    proxy = await createCuttingProxy(front.port);
    context = await browser.newContext();
    context.setDefaultTimeout(60_000);
  });
  afterEach(async () => {
    await context.close();
    await proxy[Symbol.asyncDispose]();
    await front[Symbol.asyncDispose]();
    await server.close();
  });

  async function host(): Promise<typeof front> {
    const http = createHttpServer(async (request, response) => {
      const { method = '', url = '', headers } = request;
      requests.push({ method, path: url.split('?', 1)[0] as string, type: headers['content-type'] });
      if (server.respond(request, response)) return;
      const answer = await fetch(new URL(url, files.origin));
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
      response.end(Buffer.from(await answer.arrayBuffer()));
    });
    server.attach(http);
    http.removeAllListeners('upgrade');
    http.on('upgrade', (_request, socket) =>
      socket
        .on('error', () => {})
        .end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'),
    );
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    return {
      port: (http.address() as AddressInfo).port,
      async [Symbol.asyncDispose]() {
        http.close();
        http.closeAllConnections();
      },
    };
  }

  const addressOf = (query: Record<string, string> = {}, isForeign = false) => {
    const origin = `http://127.0.0.1:${proxy.port}`;
    const all = { server: `${origin}/session`, transports: 'websocket,http', ...query };
    return `${isForeign ? files.origin : origin}/?${new URLSearchParams(all)}`;
  };
  const stateOf = (page: Page) => page.evaluate(() => window.test.state);
  const established = async (page: Page) => {
    await expect.poll(async () => (await stateOf(page)).state).toBe('established');
    return await stateOf(page);
  };
  const open = async (...at: Parameters<typeof addressOf>) => {
    const page = await context.newPage();
    await page.goto(addressOf(...at));
    return { page, ...(await established(page)) };
  };
  const send = (page: Page, text: string) => page.evaluate((sent) => window.test.session?.send(sent), text);
  const texts = (page: Page) => expect.poll(async () => (await stateOf(page)).texts);
  const posted = () => requests.filter(({ path }) => path.startsWith('/session/'));

  describe.each([
    ['the same origin', false, 'application/octet-stream'],
    ['another origin', true, 'text/plain'],
  ])('at %s', (_where, isForeign, type) => {
    it('has messages, replies in parts, a request to stop and an end over HTTP, and asks for no permission', async () => {
      const { page, transport } = await open({}, isForeign);
      expect(transport).toBe('http');
      await send(page, 'one');
      await texts(page).toEqual(['heard one']);
      expect(await page.evaluate(() => window.test.stream('5'))).toEqual(['0 ', '1 ', '2 ', '3 ', '4 ']);
      expect(await page.evaluate(() => window.test.stream('1000000', 2))).toEqual(['0 ', '1 ']);
      await expect.poll(() => stopped).toEqual(['1000000']);
      await page.evaluate(() => window.test.session?.close());
      await expect.poll(() => server.sessions.size).toBe(0);
      expect(await sessions[0]?.closed).toMatchObject({ side: 'remote' });
      expect(new Set(posted().map((each) => `${each.method} ${each.type}`))).toEqual(
        new Set([`POST ${type}`]),
      );
      expect(posted().map(({ path }) => path)).toContain('/session/frames');
    });

    it('survives cuts and a reload', async () => {
      const { page, id } = await open({}, isForeign);
      for (let i = 0; i < 100; i++) {
        await sessions[0]?.send(String(i));
        if (i % 30 === 10) proxy.cut();
        if (i % 30 === 20) proxy.cutAfter(7);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      await texts(page).toEqual(Array.from({ length: 100 }, (_, i) => String(i)));
      await page.reload();
      expect(await established(page)).toMatchObject({ id, isRebuilt: true, transport: 'http', resets: [] });
      await send(page, 'again');
      await texts(page).toEqual(['heard again']);
      expect([sessions.length, server.sessions.size]).toEqual([1, 1]);
    });
  });

  describe('with other tabs', () => {
    /** A tab that has not connected yet. */
    const newTab = async (transports = 'websocket,http') => {
      const page = await context.newPage();
      await page.goto(addressOf({ later: '', withoutStore: '', transports }));
      return page;
    };
    /** Connects once. Returns why that failed. */
    const connectOnce = async (
      page: Page,
      options: { readonly shared?: { readonly worker: string }; readonly reconnect?: false } = {},
    ) => {
      await page.evaluate((given) => window.test.open(given), {
        reconnect: { connectWithinMs: 0 },
        ...options,
      });
      return (await stateOf(page)).failure;
    };
    const heard = async (page: Page, text: string) => {
      await send(page, text);
      await texts(page).toContain(`heard ${text}`);
    };

    it.each(['http', 'websocket,http'])(
      'is told to share if three of them have one, until one of these goes (%s)',
      async (given) => {
        const tabs = [await newTab(given), await newTab(given), await newTab(given)] as const;
        for (const tab of tabs) expect(await connectOnce(tab)).toBe('');
        const [fourth, ...more] = [await newTab(given), await newTab(given), await newTab(given)];
        for (const tab of [fourth, ...more]) {
          const failure = await connectOnce(tab);
          expect(failure).toContain('connection_failed');
          expect(failure).toContain('shared: true');
        }
        expect(server.sessions.size).toBe(3);
        for (const tab of tabs) await heard(tab, 'one');
        // One that connects again keeps its place, or takes the one that it has left.
        proxy.cut();
        for (const tab of tabs) await heard(tab, 'two');
        await tabs[0].evaluate(() => window.test.session?.close());
        expect(await connectOnce(fourth)).toBe('');
        await tabs[1].reload();
        expect(await connectOnce(tabs[1])).toBe('');
        await heard(fourth, 'three');
        await tabs[2].close();
        expect(await connectOnce(tabs[0])).toBe('');
      },
    );

    it('counts none where a connection carries many streams', async () => {
      await context.addInitScript(() =>
        Object.defineProperty(PerformanceResourceTiming.prototype, 'nextHopProtocol', { value: 'h2' }),
      );
      for (let i = 0; i < 4; i++) expect(await connectOnce(await newTab('http'))).toBe('');
      expect(server.sessions.size).toBe(4);
    });

    it.skipIf(proxyMissing('nginx'))(
      'has a session of its own for each tab over HTTP/2, through nginx with TLS',
      async () => {
        await using nginx = await startProxyWith('nginx', (port, folder) => {
          createCertificate(folder);
          return nginxWith(
            folder,
            `server {
              listen 127.0.0.1:${port} ssl http2;
              ssl_certificate ${folder}/tls.crt;
              ssl_certificate_key ${folder}/tls.key;
              location / { proxy_pass http://127.0.0.1:${proxy.port}; proxy_set_header Host $http_host; }
            }`,
          );
        });
        const origin = `https://127.0.0.1:${nginx.port}`;
        const secure = await browser.newContext({ ignoreHTTPSErrors: true });
        const query = { server: `${origin}/session`, transports: 'http', later: '', withoutStore: '' };
        const tabs = await Promise.all(Array.from({ length: 8 }, () => secure.newPage()));
        for (const tab of tabs) {
          await tab.goto(`${origin}/?${new URLSearchParams(query)}`);
          expect(await connectOnce(tab)).toBe('');
        }
        expect(server.sessions.size).toBe(8);
        for (const tab of tabs) await heard(tab, 'one');
        const protocols = await (tabs[7] as Page).evaluate(() =>
          performance
            .getEntriesByType('resource')
            .map((entry) => (entry as PerformanceResourceTiming).nextHopProtocol),
        );
        expect(protocols).toContain('h2');
        proxy.cut();
        for (const tab of tabs) await heard(tab, 'two');
        expect(sessions.length).toBe(8);
        await secure.close();
      },
    );

    it('gives its place up before the browser freezes it', async () => {
      const tabs = [await newTab(), await newTab(), await newTab(), await newTab()] as const;
      expect(await connectOnce(tabs[0], { reconnect: false })).toBe('');
      for (const tab of tabs.slice(1, 3)) expect(await connectOnce(tab)).toBe('');
      await tabs[0].evaluate(() => document.dispatchEvent(new Event('freeze')));
      expect(await connectOnce(tabs[3])).toBe('');
      for (const tab of tabs.slice(1)) await heard(tab, 'one');
      await expect.poll(() => server.sessions.size).toBe(3);
    });

    it.each(['in a worker', 'in a tab that they elect'])('shares one session, %s', async (where) => {
      if (where !== 'in a worker') await context.addInitScript('delete globalThis.SharedWorker');
      const tabs = await Promise.all(Array.from({ length: 6 }, () => newTab()));
      const shared = { worker: '/shared-worker.js' };
      for (const tab of tabs) expect(await connectOnce(tab, { shared })).toBe('');
      const states = await Promise.all(tabs.map(stateOf));
      expect(new Set(states.map(({ transport }) => transport))).toEqual(new Set(['http']));
      expect(server.sessions.size).toBe(1);
      await send(tabs[5] as Page, 'one');
      for (const tab of tabs) await texts(tab).toEqual(['heard one']);
      proxy.cut();
      await send(tabs[4] as Page, 'two');
      for (const tab of tabs) await texts(tab).toEqual(['heard one', 'heard two']);
      for (const tab of tabs) await tab.evaluate(() => window.test.session?.close());
      await expect.poll(() => server.sessions.size).toBe(0);
    });
  });
});
