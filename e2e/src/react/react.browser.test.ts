import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serve } from '@parlance/client/contract';
import { createServer, RequestError, type Server, type ServerOptions, type Session } from '@parlance/server';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { renderToString } from 'react-dom/server';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Bundle, bundleFile } from '../../../bench/src/page/bundle.js';
import { type StaticFiles, serveCompressed } from '../../../bench/src/page/static-files.js';
import { CHROMIUM, chromiumMissing } from '../../../scripts/chromium.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { page as app } from './react-app.js';
import { COUNTING } from './react-contract.js';

/** The hooks in the React of applications, in strict mode, against a real server. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of React pages: ${missing}`);
}

const require = createRequire(import.meta.url);
const folderOf = (name: string) => dirname(require.resolve(`${name}/package.json`));

const VERSIONS = [
  { major: '19', alias: {} },
  { major: '18', alias: { react: folderOf('react18'), 'react-dom': folderOf('react-dom18') } },
];

describe.skipIf(missing !== undefined).each(VERSIONS)('a page with React $major', ({ major, alias }) => {
  let browser: Browser;
  let bundle: Bundle;
  let files: StaticFiles;
  let context: BrowserContext;
  let page: Page;
  let server: Server;
  let proxy: CuttingProxy;
  let accepted: Session[];
  /** Handlers by what has become of them. */
  let handlers: Record<'running' | 'aborted' | 'complete', number>;
  let go: () => void;
  /** The IDs of the sessions in which the page has joined its room. */
  let joined: string[];

  beforeAll(async () => {
    const file = fileURLToPath(new URL('./react-page.ts', import.meta.url));
    // Strict mode does nothing in production.
    const define = { 'process.env.NODE_ENV': '"development"' };
    bundle = await bundleFile(file, { fromSource: true, alias, define });
    files = await serveCompressed(bundle.folder);
    browser = await chromium.launch(CHROMIUM);
  });
  afterAll(async () => {
    await browser?.close();
    await files?.[Symbol.asyncDispose]();
    await bundle?.[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    accepted = [];
    joined = [];
    handlers = { running: 0, aborted: 0, complete: 0 };
    context = await browser.newContext();
    context.setDefaultTimeout(60_000);
    await start();
    proxy = await createCuttingProxy(Number(new URL(url).port));
    page = await context.newPage();
  });
  afterEach(async () => {
    await context.close();
    await proxy[Symbol.asyncDispose]();
    await server.close();
  });

  let url: string;
  async function start(options: ServerOptions = {}): Promise<void> {
    const going = new Promise<void>((resolve) => {
      go = resolve;
    });
    server = createServer({
      origins: [files.origin],
      authenticate: ({ token = '' }) =>
        token === 'wrong'
          ? null
          : { principal: 'acme', agentId: token.startsWith('agent-') ? token : undefined },
      onSession: (session) => void accepted.push(session),
      onRequest: serve(
        COUNTING,
        {
          async *count(to) {
            for (let i = 1; i <= to; i++) yield i;
          },
        },
        {
          async *otherwise({ text }, { keep, signal }) {
            handlers.running++;
            if (text === 'keep') keep({ name: 'kept' });
            if (text.startsWith('join ')) return void joined.push(text.slice('join '.length));
            if (text.startsWith('leave ')) {
              joined = joined.filter((id) => id !== text.slice('leave '.length));
              return;
            }
            if (text === 'full') throw new RequestError('full', 'no more members');
            try {
              yield 'one ';
              await Promise.race([
                going,
                new Promise((resolve) => signal.addEventListener('abort', resolve)),
              ]);
              yield 'two';
            } finally {
              handlers.running--;
              handlers[signal.aborted ? 'aborted' : 'complete']++;
            }
          },
        },
      ),
      ...options,
    });
    ({ url } = await server.listen());
  }

  const addressOf = (query: Record<string, string> = {}) => {
    const through = `ws://127.0.0.1:${proxy.port}/session`;
    return `${files.origin}/?${new URLSearchParams({ server: through, ...query })}`;
  };
  const text = (id: string) => expect.poll(() => page.locator(`#${id}`).textContent());
  const click = (id: string) => page.locator(`#${id}`).click();
  const shown = async (id: string): Promise<unknown> =>
    JSON.parse((await page.locator(`#${id}`).textContent()) ?? '');
  const stream = (
    ...[status, value, reason = null]: [status: string, value: string, reason?: string | null]
  ) =>
    expect
      .poll(async () => ((await shown('stream')) as unknown[]).slice(0, 3))
      .toEqual([status, value, reason]);
  const online = async (query?: Record<string, string>) => {
    await page.goto(addressOf(query));
    await text('status').toBe('online');
  };

  it('opens one session in strict mode, and closes it when the component is unmounted', async () => {
    await online();
    expect(await page.evaluate(() => window.react.version.split('.')[0])).toBe(major);
    expect([accepted.length, proxy.opened]).toEqual([1, 1]);
    await page.evaluate(() => window.react.unmount());
    await expect.poll(() => server.sessions.size).toBe(0);
    expect(accepted[0]?.state).toBe('closed');
  });

  it('calls a function once in strict mode, and closes the session that it returns', async () => {
    await online({ source: 'function' });
    expect([accepted.length, await page.evaluate(() => window.react.connects)]).toEqual([1, 1]);
    await click('leave');
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('leaves a session open that it was given', async () => {
    await online({ source: 'session' });
    await click('ask');
    await stream('streaming', 'one ');
    await click('leave');
    await text('status').toBe('idle');
    await expect.poll(() => handlers).toEqual({ running: 1, aborted: 0, complete: 0 });
    await click('return');
    await text('status').toBe('online');
    await page.evaluate(() => window.react.unmount());
    await expect.poll(() => handlers).toEqual({ running: 0, aborted: 1, complete: 0 });
    await accepted[0]?.send('still there');
    await accepted[0]?.flush();
    expect([accepted.length, accepted[0]?.state]).toEqual([1, 'established']);
  });

  it('streams, stops, and cancels what an unmounted component has asked', async () => {
    await online();
    await stream('idle', '');
    await click('ask');
    await stream('streaming', 'one ');
    go();
    await stream('done', 'one two');
    expect(handlers).toEqual({ running: 0, aborted: 0, complete: 1 });
    await start2();
    await click('ask');
    await stream('streaming', 'one ');
    await click('stop');
    await stream('stopped', 'one ');
    await expect.poll(() => handlers).toEqual({ running: 0, aborted: 1, complete: 0 });
    await click('ask');
    await stream('streaming', 'one ');
    await click('show-nothing');
    await expect.poll(() => handlers).toEqual({ running: 0, aborted: 2, complete: 0 });
    expect(await page.locator('#status').textContent()).toBe('online');
  });

  /** A server whose handlers wait again. */
  async function start2(): Promise<void> {
    await click('leave');
    await server.close();
    handlers = { running: 0, aborted: 0, complete: 0 };
    await start();
    proxy.redirect(Number(new URL(url).port));
    await click('return');
    await text('status').toBe('online');
  }

  it('cancels the reply that another one takes the place of', async () => {
    await online();
    await click('ask');
    await stream('streaming', 'one ');
    await click('ask');
    await expect.poll(() => handlers).toEqual({ running: 1, aborted: 1, complete: 0 });
    go();
    await stream('done', 'one two');
  });

  it('continues after a lost connection, and says how much time is left', async () => {
    await online();
    await click('ask');
    await stream('streaming', 'one ');
    proxy.refuse(true);
    proxy.cut();
    await text('status').toBe('reconnecting');
    const left = Number(await page.locator('#left').textContent());
    expect(left).toBeGreaterThan(60);
    expect(left).toBeLessThanOrEqual(120);
    await expect.poll(async () => Number(await page.locator('#left').textContent())).toBeLessThan(left);
    go();
    proxy.refuse(false);
    await text('status').toBe('online');
    await text('left').toBe('-1');
    await stream('done', 'one two');
    expect(accepted.length).toBe(1);
  });

  it.each(['drains', 'closes'] as const)(
    'reconnects when its server %s, and is not shown as closed',
    async (how) => {
      await online();
      await page.evaluate(() => {
        const status = document.querySelector('#status') as Element;
        const seen: string[] = [];
        new MutationObserver(() => seen.push(status.textContent ?? '')).observe(status, {
          childList: true,
          characterData: true,
          subtree: true,
        });
        Object.assign(globalThis, { seen });
      });
      const former = server;
      await start();
      proxy.redirect(Number(new URL(url).port));
      if (how === 'drains') await former.drain({ returnWithinMs: 0 });
      await former.close();
      await expect.poll(() => server.sessions.size).toBe(1);
      await text('status').toBe('online');
      const seen = await page.evaluate(() => (globalThis as unknown as { seen: string[] }).seen);
      expect(seen).toEqual(['reconnecting', 'online']);
    },
  );

  it('says why a session is refused, and connects again when asked', async () => {
    await page.goto(addressOf({ token: 'wrong' }));
    await text('status').toBe('refused');
    expect(await page.locator('#code').textContent()).toBe('unauthenticated');
    proxy.refuse(true);
    await page.goto(addressOf());
    await text('status').toBe('refused');
    expect(await page.locator('#code').textContent()).toBe('connection_failed');
    proxy.refuse(false);
    await click('retry');
    await text('status').toBe('online');
    expect(accepted.length).toBe(1);
  });

  it('shows that either end has closed the session', async () => {
    await online();
    await accepted[0]?.close();
    await text('status').toBe('closed');
    await text('code').toBe('');
    await click('ask');
    await stream('failed', '', 'session_closed');
    await click('retry');
    await text('status').toBe('online');
    await click('close');
    await text('status').toBe('closed');
    expect(accepted.length).toBe(2);
  });

  it('shows the code with which the server has closed the session', async () => {
    await online();
    await accepted[0]?.close({ code: 'kicked', reason: 'spam' });
    await text('code').toBe('kicked');
    await text('status').toBe('closed');
    await click('retry');
    await text('status').toBe('online');
    await text('code').toBe('');
  });

  it('shows that code also for a session that has taken the place of a lost one', async () => {
    await online();
    const [present] = [...server.sessions.values()];
    proxy.refuse(true);
    proxy.cut();
    await text('status').toBe('reconnecting');
    await present?.close();
    proxy.refuse(false);
    await expect.poll(() => accepted.length).toBe(2);
    await text('status').toBe('online');
    await accepted[1]?.close({ code: 'kicked' });
    await text('code').toBe('kicked');
    await text('status').toBe('closed');
  });

  it('has no session without a URL, and another one for another URL', async () => {
    await online();
    await click('leave');
    await text('status').toBe('idle');
    await expect.poll(() => server.sessions.size).toBe(0);
    await click('return');
    await text('status').toBe('online');
    expect(accepted.length).toBe(2);
  });

  it('hears each message once in each component, and joins again in a session that takes the place of a lost one', async () => {
    await online();
    await click('show-room');
    const first = accepted[0] as Session;
    await expect.poll(() => shown('room')).toEqual(['joined', null]);
    expect(joined).toEqual([first.id]);
    await first.send('one');
    await expect.poll(() => shown('said')).toEqual(['one']);
    // Nobody listens for a while, and messages wait.
    await click('show-nothing');
    await expect.poll(() => joined).toEqual([]);
    await first.send('two');
    await click('show-room');
    await expect.poll(() => shown('said')).toEqual(['two']);
    await expect.poll(() => joined).toEqual([first.id]);
    const [present] = [...server.sessions.values()];
    proxy.refuse(true);
    proxy.cut();
    await text('status').toBe('reconnecting');
    await present?.close();
    proxy.refuse(false);
    await expect.poll(() => accepted.length).toBe(2);
    const second = accepted[1] as Session;
    await expect.poll(() => joined).toEqual([first.id, second.id]);
    await text('resets').toBe('1');
    await second.send('three');
    await expect.poll(() => shown('said')).toEqual(['two', 'three']);
    await expect.poll(() => shown('count')).toBe(2);
    expect(second.id).not.toBe(first.id);
  });

  it('is told why it is not in a room', async () => {
    await online({ room: 'full' });
    await click('show-room');
    await expect.poll(() => shown('room')).toEqual(['failed', 'full']);
    expect(joined).toEqual([]);
  });

  it('follows a kept reply in a new session, without stopping its handler', async () => {
    await online();
    await click('ask-kept');
    await expect.poll(() => shown('stream')).toEqual(['streaming', 'one ', null, false]);
    await page.reload();
    await text('status').toBe('online');
    await click('show-reply');
    await expect.poll(() => shown('reply')).toEqual(['streaming', 'one ', null]);
    // A session that is lost, and a new one.
    const [present] = [...server.sessions.values()];
    proxy.refuse(true);
    proxy.cut();
    await text('status').toBe('reconnecting');
    await present?.close();
    proxy.refuse(false);
    await text('status').toBe('online');
    expect(await page.locator('#id').textContent()).not.toBe(present?.id);
    await click('show-nothing');
    await click('show-reply');
    await expect.poll(() => shown('reply')).toEqual(['streaming', 'one ', null]);
    expect(handlers).toEqual({ running: 1, aborted: 0, complete: 0 });
    go();
    await expect.poll(() => shown('reply')).toEqual(['done', 'one two', null]);
    expect(await shown('position')).toBe(2);
  });

  it('continues following in the session that takes the place of a lost one', async () => {
    await online();
    await click('ask-kept');
    await expect.poll(() => shown('stream')).toEqual(['streaming', 'one ', null, false]);
    await page.reload();
    await text('status').toBe('online');
    await click('show-reply');
    await expect.poll(() => shown('reply')).toEqual(['streaming', 'one ', null]);
    const before = await page.locator('#id').textContent();
    proxy.refuse(true);
    proxy.cut();
    await text('status').toBe('reconnecting');
    for (const session of server.sessions.values()) void session.close();
    await expect.poll(() => server.sessions.size).toBe(0);
    proxy.refuse(false);
    await text('status').toBe('online');
    expect(await page.locator('#id').textContent()).not.toBe(before);
    go();
    await expect.poll(() => shown('reply')).toEqual(['done', 'one two', null]);
  });

  it('stops the handler of a reply that it follows', async () => {
    await online();
    await click('ask-kept');
    await expect.poll(() => shown('stream')).toEqual(['streaming', 'one ', null, false]);
    await page.reload();
    await text('status').toBe('online');
    await click('show-reply');
    await expect.poll(() => shown('reply')).toEqual(['streaming', 'one ', null]);
    await click('stop-reply');
    await expect.poll(() => shown('reply')).toEqual(['stopped', 'one ', null]);
    await expect.poll(() => handlers).toEqual({ running: 0, aborted: 1, complete: 0 });
  });

  it('reads a procedure of a contract', async () => {
    await online();
    await click('show-count');
    await click('start-count');
    await expect.poll(() => shown('count')).toEqual(['done', 10]);
  });

  it('lists agents as they come and go, and asks no more when it is unmounted', async () => {
    await online({ token: 'agent-a' });
    await click('show-agents');
    const list = (...ids: string[]) => expect.poll(() => shown('agents')).toEqual(['ready', ids, null]);
    await list();
    const other = await context.newPage();
    await other.goto(addressOf({ token: 'agent-b' }));
    await list('agent-b');
    // The session is lost, and the list is asked for again in the next.
    proxy.refuse(true);
    proxy.cut();
    await text('status').toBe('reconnecting');
    for (const session of server.sessions.values()) void session.close();
    await expect.poll(() => server.sessions.size).toBe(0);
    proxy.refuse(false);
    await text('status').toBe('online');
    await list('agent-b');
    await other.close();
    await list();
    const present = accepted.findLast(({ agentId }) => agentId === 'agent-a');
    expect(present?.stats().openStreams).toBe(1);
    await click('show-nothing');
    await expect.poll(() => present?.stats().openStreams).toBe(0);
  });

  it('takes over what a server has rendered', async () => {
    const rendered = renderToString(app({ url: 'ws://127.0.0.1:1/session', token: 'anna' }));
    expect(rendered).toContain('connecting');
    await page.addInitScript((html) => {
      window.rendered = html;
    }, rendered);
    await online();
    expect(await page.evaluate(() => window.react.errors)).toEqual([]);
    expect(accepted.length).toBe(1);
  });
});
