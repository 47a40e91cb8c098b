import { once } from 'node:events';
import { copyFile, readdir } from 'node:fs/promises';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ClientOptions } from '@parlance/client';
import { createServer, RequestError, type Server, type ServerOptions } from '@parlance/server';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import type { SharedPage } from './shared-page.js';

/** Tabs that share a session, in a real browser, against a real server. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of shared sessions: ${missing}`);
}

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const PART = 'x'.repeat(10_000);
/** Far more than what all windows between the server and a tab hold. */
const FLOOD = 4_000;

describe.skipIf(missing !== undefined)('tabs that share a session', () => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  let context: BrowserContext;
  let server: Server;
  let url: string;
  /** Requests whose handler was told to stop. */
  let aborted: string[];
  /** Parts of floods that handlers have yielded. */
  let yielded: number;
  /** Sessions that the server has accepted. */
  let accepted: number;
  let ended: number;

  beforeAll(async () => {
    bundle = await bundleFile(source('./shared-page.ts'), { fromSource: true });
    await using worker = await bundleFile(source('../../../packages/client/src/shared-worker.ts'), {
      fromSource: true,
    });
    for (const name of await readdir(worker.folder)) {
      if (name.endsWith('.js')) await copyFile(join(worker.folder, name), join(bundle.folder, name));
    }
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await bundle?.[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    await context?.close();
    await server?.close();
    await files?.[Symbol.asyncDispose]();
  });

  async function start(
    headers: Readonly<Record<string, string>> = {},
    timers: ServerOptions['timers'] = {},
  ): Promise<void> {
    files = await serveCompressed(bundle.folder, headers);
    [aborted, yielded, accepted, ended] = [[], 0, 0, 0];
    server = createServer({
      origins: [files.origin],
      timers,
      authenticate: ({ token }) => (token === 'wrong' ? null : { principal: token ?? 'anyone' }),
      async onSession(session) {
        accepted++;
        try {
          for await (const message of session) await session.send(`to all: ${message.text}`);
        } finally {
          ended++;
        }
      },
      async *onRequest({ text }, { signal }) {
        signal.addEventListener('abort', () => aborted.push(text));
        if (text === 'fail') throw new RequestError('quota', 'used up', { data: { left: 0 } });
        if (text.startsWith('flood')) {
          for (; yielded < FLOOD; yielded++) yield PART;
          return;
        }
        yield `re: ${text}`;
        if (text.startsWith('hold'))
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    });
    ({ url } = await server.listen());
    context = await browser.newContext();
    context.setDefaultTimeout(60_000);
  }

  const SHARED: ClientOptions = { shared: { worker: '/shared-worker.js' } };

  async function newTab(): Promise<Page> {
    const tab = await context.newPage();
    await tab.goto(`${files.origin}/`);
    await tab.waitForFunction('globalThis.page !== undefined');
    return tab;
  }

  async function openTab(options: ClientOptions = {}, target = url): Promise<Page> {
    const tab = await newTab();
    expect(await call(tab, 'open', target, { ...SHARED, ...options })).toMatch(/^sess_/);
    return tab;
  }

  function call<Name extends keyof SharedPage>(
    tab: Page,
    name: Name,
    ...args: Parameters<SharedPage[Name]>
  ): Promise<Awaited<ReturnType<SharedPage[Name]>>> {
    const run = async ([called, given]: [string, readonly unknown[]]): Promise<unknown> => {
      const { page } = globalThis as unknown as { page: Record<string, (...given: unknown[]) => unknown> };
      return await page[called]?.(...given);
    };
    const given: [string, readonly unknown[]] = [name, args];
    return tab.evaluate(run, given) as Promise<Awaited<ReturnType<SharedPage[Name]>>>;
  }

  const idOf = async (tab: Page) => (await call(tab, 'facts')).id;

  /** Tabs elect one of them in place of a worker. */
  const withoutWorker = () => context.addInitScript('delete globalThis.SharedWorker');

  describe.each(['in a worker', 'in a tab that they elect'])('%s', (where) => {
    async function startHere(): Promise<void> {
      await start();
      if (where !== 'in a worker') await withoutWorker();
    }

    it('have methods and events of their pages over one session', async () => {
      await startHere();
      const tabs = await Promise.all([newTab(), newTab()]);
      const opened = await Promise.all(tabs.map((tab) => call(tab, 'openWatching', url, SHARED)));
      expect(new Set(opened).size).toBe(1);
      expect(server.sessions.size).toBe(1);
      const watched = await Promise.all(tabs.map((tab, at) => call(tab, 'watch', `tab ${at}`)));
      expect(watched).toEqual([['re: tab 0'], ['re: tab 1']]);
    });

    it('use one WebSocket for everything, and each gets every message', async () => {
      await startHere();
      const tabs = await Promise.all([openTab(), openTab(), openTab()]);
      expect(server.sessions.size).toBe(1);
      expect(accepted).toBe(1);
      const answers = await Promise.all(tabs.map((tab, i) => call(tab, 'request', `from ${i}`)));
      expect(answers).toEqual(['re: from 0', 're: from 1', 're: from 2']);
      const reads = tabs.map((tab) => call(tab, 'read'));
      await call(tabs[0] as Page, 'send', 'hello');
      expect(await Promise.all(reads)).toEqual(Array(3).fill('to all: hello'));
      expect((await call(tabs[0] as Page, 'facts')).sent).toBeGreaterThanOrEqual(1);
    });

    it('lose only what is theirs if one of them is closed, and the last one takes the session along', async () => {
      await startHere();
      // The first one hosts the session, if a tab does.
      const host = await openTab();
      const goes = await openTab();
      expect(await call(goes, 'begin', 'hold in a tab that goes')).toBe('re: hold i');
      expect(await call(host, 'begin', 'hold in a tab that stays')).toBe('re: hold i');
      await goes.close();
      await expect.poll(() => aborted).toEqual(['hold in a tab that goes']);
      expect(await call(host, 'request', 'x')).toBe('re: x');
      expect(await call(host, 'close')).toBe(0);
      await expect.poll(() => ended).toBe(1);
      expect(server.sessions.size).toBe(0);
      expect(accepted).toBe(1);
    });

    it('leave one by one, also if the page stays', async () => {
      await startHere();
      const [one, two] = [await openTab(), await openTab()];
      await call(one, 'close');
      expect((await call(one, 'facts')).state).toBe('closed');
      expect(await call(two, 'request', 'x')).toBe('re: x');
      expect(server.sessions.size).toBe(1);
      expect(await call(one, 'open', url, SHARED)).toBe(await idOf(two));
    });

    it('get errors as they were thrown, and stop handlers by leaving the loop', async () => {
      await startHere();
      const [, tab] = [await openTab(), await openTab()];
      expect(await call(tab, 'request', 'fail')).toBe('RequestError quota remote {"left":0}');
      await call(tab, 'begin', 'hold');
      await call(tab, 'leave');
      await expect.poll(() => aborted).toEqual(['hold']);
    });

    it('have a socket of their own with another credential or URL', async () => {
      await startHere();
      const first = await openTab({ token: 'alice' });
      const same = await openTab({ token: 'alice' });
      const others = [
        await openTab({ token: 'bob' }),
        await openTab({ token: 'alice' }, `${url}?other`),
        await openTab({ token: 'alice', limits: { maxStreams: 7 } }),
      ];
      expect(await idOf(same)).toBe(await idOf(first));
      const ids = new Set(await Promise.all([first, ...others].map(idOf)));
      expect(ids.size).toBe(4);
      expect(server.sessions.size).toBe(4);
      const refused = await newTab();
      expect(await call(refused, 'open', url, { ...SHARED, token: 'wrong' })).toMatch(/^ProtocolError/);
    });

    it('stop connecting when a signal aborts', async () => {
      await startHere();
      // It accepts connections and never answers.
      const silent = createTcpServer(() => {}).listen(0, '127.0.0.1');
      await once(silent, 'listening');
      const target = `ws://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      const tab = await newTab();
      expect(await call(tab, 'openWithin', 300, target, SHARED)).toMatch(/^TimeoutError/);
      expect(await call(tab, 'open', url, SHARED)).toMatch(/^sess_/);
      silent.close();
    });

    it('do not wait for one that does not read, and hold its sender back', async () => {
      await startHere();
      const quick = await openTab();
      const slow = await openTab();
      await call(slow, 'begin', 'flood');
      for (let i = 0; i < 100; i++) expect(await call(quick, 'request', `${i}`)).toBe(`re: ${i}`);
      expect(yielded).toBeLessThan(FLOOD / 4);
      // Everything arrives once it reads.
      expect(await call(slow, 'rest')).toBe(String((FLOOD - 1) * PART.length));
    });

    it('survive one that crashes, whose handlers stop', async () => {
      await startHere();
      const stays = await openTab();
      const crashes = await openTab();
      await call(crashes, 'begin', 'hold in a tab that crashes');
      await crashes.goto('chrome://crash').catch(() => {});
      await expect.poll(() => aborted).toEqual(['hold in a tab that crashes']);
      await expect.poll(() => call(stays, 'request', 'x')).toBe('re: x');
      expect(server.sessions.size).toBe(1);
    });
  });

  it.each(['is closed', 'crashes'])('elect another tab when the one with the session %s', async (how) => {
    await start();
    await withoutWorker();
    const host = await openTab();
    const tabs = [await openTab(), await openTab()] as const;
    const former = await idOf(host);
    await call(tabs[0], 'begin', 'hold');
    const lost = call(tabs[0], 'rest');
    if (how === 'crashes') await host.goto('chrome://crash').catch(() => {});
    else await host.close();
    expect(await lost).toBe('ProtocolError session_lost local');
    for (const tab of tabs) {
      await expect.poll(async () => (await call(tab, 'facts')).state).toBe('established');
      expect(await call(tab, 'request', 'x')).toBe('re: x');
      expect(await call(tab, 'facts')).toMatchObject({ states: ['connecting', 'established'], resets: 1 });
      expect(await idOf(tab)).not.toBe(former);
    }
    expect(await idOf(tabs[0])).toBe(await idOf(tabs[1]));
    // The session of a page that crashed waits for a while to be resumed.
    expect(accepted).toBe(2);
  });

  it('get another session if the worker dies', async () => {
    await start();
    const tabs = [await openTab(), await openTab()] as const;
    const former = await idOf(tabs[0]);
    const control = await browser.newBrowserCDPSession();
    const { targetInfos } = await control.send('Target.getTargets');
    const worker = targetInfos.find(({ type }) => type === 'shared_worker');
    await control.send('Target.closeTarget', { targetId: worker?.targetId ?? 'no worker runs' });
    for (const tab of tabs) {
      await expect.poll(async () => (await call(tab, 'facts')).resets).toBe(1);
      await expect.poll(() => call(tab, 'request', 'x')).toBe('re: x');
      expect(await idOf(tab)).not.toBe(former);
    }
    expect(await idOf(tabs[0])).toBe(await idOf(tabs[1]));
  });

  it.each([
    ['is missing', {}, { shared: { worker: '/missing.js' } }],
    ['is forbidden by the policy of the page', { 'content-security-policy': "worker-src 'none'" }, SHARED],
  ] as const)('elect one of them if the script of the worker %s', async (_why, headers, options) => {
    await start(headers);
    const tabs = [await openTab(options), await openTab(options)] as const;
    expect(server.sessions.size).toBe(1);
    for (const tab of tabs) {
      expect(await call(tab, 'request', 'x')).toBe('re: x');
      expect(await call(tab, 'logged')).toContain('shared.worker');
    }
  });

  it.each(['in a worker', 'in a tab'])(
    'leave no session behind when their pages are closed: %s',
    async (where) => {
      await start();
      if (where === 'in a tab') await withoutWorker();
      const [first, last] = [await openTab(), await openTab()];
      await first.close();
      await expect.poll(() => accepted).toBe(where === 'in a tab' ? 2 : 1);
      await expect.poll(async () => (await call(last, 'facts')).state).toBe('established');
      await last.close();
      await expect.poll(() => server.sessions.size).toBe(0);
    },
  );

  it('keep none beyond the time to resume it if the last page closes while it says HELLO', async () => {
    await start({}, { resumeWindowMs: 1_000 });
    await withoutWorker();
    const tabs = [await openTab(), await openTab()];
    for (const tab of tabs) await tab.close();
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('have sessions of their own where nothing can be shared', async () => {
    await start();
    await withoutWorker();
    await context.addInitScript('delete globalThis.BroadcastChannel');
    const tabs = [await openTab(), await openTab()] as const;
    expect(server.sessions.size).toBe(2);
    expect(await call(tabs[0], 'request', 'x')).toBe('re: x');
    expect(await call(tabs[0], 'logged')).toContain('shared.alone');
  });

  it('refuse what cannot be shared', async () => {
    await start();
    const tab = await newTab();
    expect(await call(tab, 'open', url, { ...SHARED, agentId: 'a' })).toBe(
      'ProtocolError invalid_option local',
    );
  });
});
