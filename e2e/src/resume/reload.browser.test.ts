import { fileURLToPath } from 'node:url';
import { createServer, httpStream, type Server, type ServerOptions, type Session } from '@parlance/server';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { chromiumMissing, WHOLE_CHROMIUM } from '../../../scripts/chromium.js';

/** Pages that are loaded again, left, duplicated and crashed, against a real server. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of pages that are loaded again: ${missing}`);
}

type State = Window['test']['state'];

describe.skipIf(missing !== undefined).each(['websocket', 'http'])(
  'a page with sessionStorage as its store, over %s',
  (transport) => {
    let browser: Browser;
    let bundle: Bundle;
    let files: StaticFiles;
    let context: BrowserContext;
    let server: Server;
    let sessions: Session[];
    let url: string;
    let aborted: unknown[];

    beforeAll(async () => {
      const page = fileURLToPath(new URL('./reload-page.ts', import.meta.url));
      bundle = await bundleFile(page, { fromSource: true });
      files = await serveCompressed(bundle.folder);
      // Playwright switches the back/forward cache off.
      browser = await chromium.launch({
        ...WHOLE_CHROMIUM,
        ignoreDefaultArgs: ['--disable-back-forward-cache'],
      });
    });
    afterAll(async () => {
      await browser?.close();
      await files?.[Symbol.asyncDispose]();
      await bundle?.[Symbol.asyncDispose]();
    });
    beforeEach(async () => {
      context = await browser.newContext();
      context.setDefaultTimeout(60_000);
      await serve();
    });
    afterEach(async () => {
      await context.close();
      await server.close();
    });

    async function serve(options: ServerOptions = {}): Promise<void> {
      await server?.close();
      sessions = [];
      aborted = [];
      server = createServer({
        features: [httpStream()],
        origins: [files.origin],
        async onSession(session) {
          sessions.push(session);
          for await (const { text } of session) await session.send(`heard ${text}`);
        },
        onRequest: (_request, { signal }) =>
          new Promise((resolve) => {
            signal.addEventListener('abort', () => {
              aborted.push(signal.reason);
              resolve('');
            });
          }),
        ...options,
      });
      ({ url } = await server.listen());
    }

    const addressOf = (query: Record<string, string> = {}) =>
      `${files.origin}/?${new URLSearchParams({ server: url, transports: transport, ...query })}`;
    const stateOf = (page: Page): Promise<State> => page.evaluate(() => window.test.state);
    const established = async (page: Page): Promise<State> => {
      await expect.poll(async () => (await stateOf(page)).state).toBe('established');
      return await stateOf(page);
    };
    const open = async (query?: Record<string, string>) => {
      const page = await context.newPage();
      await page.goto(addressOf(query));
      return { page, ...(await established(page)) };
    };
    const send = (page: Page, text: string) => page.evaluate((sent) => window.test.session?.send(sent), text);
    const texts = (page: Page) => expect.poll(async () => (await stateOf(page)).texts);

    /**
     * Goes back, and resolves with the reasons why the browser had not kept the page: none if it comes
     * from the back/forward cache. Playwright's own `goBack` waits for a document to load, which does
     * not happen then.
     */
    const goBack = async (page: Page) => {
      const cdp = await context.newCDPSession(page);
      await cdp.send('Page.enable');
      const reasons = new Promise<{ type: string; reason: string }[]>((resolve) => {
        cdp.on('Page.frameNavigated', ({ type }) => type === 'BackForwardCacheRestore' && resolve([]));
        cdp.on('Page.backForwardCacheNotUsed', (event) => resolve(event.notRestoredExplanations));
      });
      const { currentIndex, entries } = await cdp.send('Page.getNavigationHistory');
      await cdp.send('Page.navigateToHistoryEntry', { entryId: entries[currentIndex - 1]?.id ?? 0 });
      return await reasons;
    };

    /**
     * A page that `leave` leaves and that comes from the back/forward cache afterwards. The browser may
     * give a page up for reasons of its own, such as a timer or its memory: it names them, and another
     * page is tried. A reason that lies in the page fails the test.
     */
    const backFromCache = async (leave: (page: Page) => Promise<void>) => {
      for (let attempt = 1; ; attempt++) {
        const { page, id } = await open();
        await leave(page);
        const reasons = await goBack(page);
        if (reasons.length === 0) return { page, id };
        const own = reasons.filter(({ type }) => type === 'Circumstantial');
        if (own.length < reasons.length || attempt === 5)
          throw new Error(`The browser did not keep the page: ${JSON.stringify(reasons)}`);
        console.warn(`The browser gave a page up: ${own.map(({ reason }) => reason).join(', ')}`);
        await page.close();
        await serve();
      }
    };

    it('without a store leaves no session behind, whether it is loaded again or closed', async () => {
      // A session that waits for its client to finish closing would be there until then.
      await serve({ timers: { closingTimeoutMs: 600_000, resumeWindowMs: 600_000 } });
      const { page, id } = await open({ withoutStore: '' });
      for (let round = 0; round < 3; round++) {
        await send(page, `round ${round}`);
        void sessions
          .at(-1)
          ?.request('never answered')
          .catch(() => {});
        await page.reload();
        expect((await established(page)).isRebuilt).toBe(false);
        await expect.poll(() => server.sessions.size).toBe(1);
      }
      expect(sessions.map((session) => session.id)).toContain(id);
      for (const session of sessions.slice(0, -1))
        expect(await session.closed).toMatchObject({ side: 'remote' });
      await page.close();
      await expect.poll(() => server.sessions.size).toBe(0);
    });

    it('whose process ends is waited for in case it comes back, and for no longer', async () => {
      await serve({ timers: { resumeWindowMs: 1_000 } });
      const { page } = await open({ withoutStore: '' });
      expect(server.sessions.size).toBe(1);
      const crashed = page.waitForEvent('crash');
      const cdp = await context.newCDPSession(page);
      cdp.send('Page.crash').catch(() => {});
      await crashed;
      await expect.poll(() => server.sessions.size).toBe(0);
    });

    it('takes its session up when it is loaded again, again and again', async () => {
      const { page, id, isRebuilt } = await open();
      expect(isRebuilt).toBe(false);
      await send(page, 'one');
      await texts(page).toEqual(['heard one']);
      for (let round = 0; round < 3; round++) {
        await page.reload();
        expect(await established(page)).toMatchObject({ id, isRebuilt: true, resets: [], failure: '' });
        await send(page, `round ${round}`);
        await sessions[0]?.send(`to round ${round}`);
        const heard = [`heard round ${round}`, `to round ${round}`];
        await expect.poll(async () => (await stateOf(page)).texts.toSorted()).toEqual(heard);
      }
      expect([sessions.length, server.sessions.size]).toEqual([1, 1]);
    });

    it('gets what was sent while it was being loaded, and learns which requests were interrupted', async () => {
      const { page, id } = await open();
      await page.evaluate(() => window.test.ask('a question'));
      await page.evaluate(() => window.test.session?.flush());
      const sending = (async () => {
        for (let i = 0; i < 200; i++) {
          await sessions[0]?.send(String(i));
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
      })();
      await expect.poll(async () => (await stateOf(page)).texts.length).toBeGreaterThan(0);
      // The document is unloaded after this; what it has by then, it has.
      await page.evaluate(() => {
        window.addEventListener('pagehide', () =>
          localStorage.setItem('texts', JSON.stringify(window.test.texts)),
        );
      });
      await page.reload();
      expect(await established(page)).toMatchObject({ id, isRebuilt: true });
      await sending;
      const before: string[] = JSON.parse(await page.evaluate(() => localStorage.getItem('texts') ?? '[]'));
      const all = Array.from({ length: 200 }, (_, i) => String(i));
      await expect.poll(async () => [...before, ...(await stateOf(page)).texts]).toEqual(all);
      await expect
        .poll(async () => (await stateOf(page)).resets)
        .toEqual([
          {
            code: 'reloaded',
            reason: 'the page was loaded again',
            notSent: [],
            unknown: [{ kind: 'request', streamId: 1 }],
          },
        ]);
      expect(aborted).toEqual([expect.objectContaining({ code: 'interrupted' })]);
    });

    it('resumes its session when it returns from the back/forward cache', async () => {
      const { page, id } = await backFromCache(async (left) => {
        await left.goto(`${files.origin}/?elsewhere`);
        await expect.poll(() => sessions[0]?.state).toBe('suspended');
        await sessions[0]?.send('meanwhile');
      });
      await expect.poll(async () => (await stateOf(page)).isBack).toBe(true);
      expect((await established(page)).isRebuilt).toBe(false);
      await texts(page).toEqual(['meanwhile']);
      expect((await stateOf(page)).id).toBe(id);
      // And may be loaded again after that.
      await page.reload();
      expect(await established(page)).toMatchObject({ id, isRebuilt: true });
    });

    it('gets a new session if another document has taken its own up in the meantime', async () => {
      const { page, id } = await backFromCache(async (left) => {
        const { id: taken } = await stateOf(left);
        await left.goto(addressOf({ again: '' }));
        expect(await established(left)).toMatchObject({ id: taken, isRebuilt: true });
      });
      await expect.poll(async () => (await stateOf(page)).isBack).toBe(true);
      await expect.poll(async () => (await stateOf(page)).resets.length).toBe(1);
      const back = await established(page);
      expect(back.id).not.toBe(id);
      await send(page, 'one');
      await texts(page).toEqual(['heard one']);
    });

    it('does the same if events say so in a browser without that cache', async () => {
      const { page, id } = await open();
      const tell = (type: string) =>
        page.evaluate(
          (name) => window.dispatchEvent(new PageTransitionEvent(name, { persisted: true })),
          type,
        );
      await tell('pagehide');
      await expect.poll(() => sessions[0]?.state).toBe('suspended');
      expect(JSON.parse((await stateOf(page)).entries[0]?.[1] ?? '')).toMatchObject({
        detached: true,
        sessionId: id,
      });
      await tell('pageshow');
      expect(await established(page)).toMatchObject({ id, resets: [] });
    });

    it('takes its session up after it has crashed', async () => {
      const { page, id } = await open();
      await send(page, 'one');
      await texts(page).toEqual(['heard one']);
      // The count is written a moment later.
      await expect.poll(async () => JSON.parse((await stateOf(page)).entries[0]?.[1] ?? '').received).toBe(1);
      const cdp = await context.newCDPSession(page);
      const crashed = page.waitForEvent('crash');
      cdp.send('Page.crash').catch(() => {});
      await crashed;
      await expect.poll(() => sessions[0]?.state).toBe('suspended');
      await cdp.send('Page.reload');
      const evaluate = async () => {
        const { result } = await cdp.send('Runtime.evaluate', {
          expression: 'window.test && window.test.state',
          returnByValue: true,
        });
        return result.value as State | undefined;
      };
      await expect.poll(evaluate).toMatchObject({ id, isRebuilt: true, state: 'established' });
    });

    it.each([{}, { withoutLocks: '' }])('never shares it with a duplicate of itself: %j', async (query) => {
      const { page, id } = await open(query);
      const [duplicate] = await Promise.all([
        context.waitForEvent('page'),
        page.evaluate((address) => void window.open(address), addressOf(query)),
      ]);
      const other = await established(duplicate as Page);
      expect(other).toMatchObject({ isRebuilt: false, failure: '' });
      expect(other.id).not.toBe(id);
      expect(JSON.parse(other.entries[0]?.[1] ?? '').sessionId).toBe(other.id);
      for (const each of [page, duplicate as Page]) {
        await send(each, 'one');
        await texts(each).toEqual(['heard one']);
      }
      // Each has its own after it was loaded again.
      for (const each of [page, duplicate as Page]) await each.reload();
      expect(await established(page)).toMatchObject({ id, isRebuilt: true });
      expect(await established(duplicate as Page)).toMatchObject({ id: other.id, isRebuilt: true });
    });

    it('takes it up when it is loaded again without locks, which it has left in time', async () => {
      const { page, id } = await open({ withoutLocks: '' });
      await page.reload();
      expect(await established(page)).toMatchObject({ id, isRebuilt: true });
    });

    it('takes up what it has left with detach()', async () => {
      const { page, id } = await open();
      await page.evaluate(() => window.test.session?.detach());
      await texts(page).toEqual(['the end']);
      expect(await stateOf(page)).toMatchObject({ state: 'closed', resets: [] });
      await page.evaluate(() => window.test.open());
      expect(await established(page)).toMatchObject({ id, isRebuilt: true });
      await send(page, 'one');
      await texts(page).toEqual(['the end', 'heard one']);
    });

    it('leaves nothing behind when it closes its session', async () => {
      const { page, id } = await open();
      expect((await stateOf(page)).entries).toHaveLength(1);
      await page.evaluate(() => window.test.session?.close());
      expect((await stateOf(page)).entries).toEqual([]);
      await page.reload();
      const again = await established(page);
      expect([again.isRebuilt, again.id === id]).toEqual([false, false]);
    });

    it('gets a new session as another principal', async () => {
      await serve({ authenticate: ({ token }) => ({ principal: token ?? '' }) });
      const { page, id } = await open({ token: 'anna' });
      await page.goto(addressOf({ token: 'berta' }));
      const other = await established(page);
      expect([other.isRebuilt, other.id === id]).toEqual([false, false]);
      expect(JSON.parse(other.entries[0]?.[1] ?? '').sessionId).toBe(other.id);
    });

    it('works with a store that throws, but begins a new session when it is loaded again', async () => {
      const { page, id } = await open({ broken: '' });
      await send(page, 'one');
      await texts(page).toEqual(['heard one']);
      await page.reload();
      const again = await established(page);
      expect([again.isRebuilt, again.id === id]).toEqual([false, false]);
    });
  },
);
