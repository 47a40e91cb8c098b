import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@parlance/client';
import { type InspectionEvent, parseEvent, tap } from '@parlance/client/inspect';
import { createServer, type ServerOptions } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import axe from 'axe-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createResponder } from '../../../examples/demo/responder.js';
import { openConnectPage } from '../../../packages/cli/src/connect/connect-page.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { captureOf, makeCapture } from '../kit/captures.js';
import { chromiumMissing, launchChromium } from '../kit/chat-page.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** The inspector in a real browser: on live sessions, chat pages, captures, and the command line. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of the inspector: ${missing}`);
}

const TOKEN = 'credential-of-the-user';
const ANSWER = 'Every word of this answer is a part.';

/** Answers any text in words. */
async function* answer(): AsyncGenerator<string> {
  yield* ANSWER.split(/(?<= )/);
}

describe.skipIf(missing !== undefined)('the inspector', () => {
  let browser: Browser;
  let folder: string;
  const open: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'parlance-inspector-'));
    browser = await launchChromium();
  });
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await browser?.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** The pages and a session server, as `parlance serve` has them. */
  async function serve(options: ServerOptions = {}) {
    const server = createServer({ onRequest: createResponder({ delayMs: 2 }), ...options });
    open.push(() => server.close());
    const { port } = await server.listen({ respond: createUserInterface({ folder: BUILT_PAGES }) });
    return { origin: `http://127.0.0.1:${port}`, port, server };
  }

  async function profile(options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(60_000);
    open.push(() => context.close());
    return context;
  }

  async function visit(context: BrowserContext, url: string) {
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(url);
    return { page, complaints };
  }

  async function saveTo(page: Page, name: string): Promise<string> {
    const downloaded = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save' }).click();
    const path = join(folder, name);
    await (await downloaded).saveAs(path);
    return path;
  }

  async function openFile(page: Page, path: string): Promise<void> {
    await page.setInputFiles('input[type=file]', path);
  }

  const says = (page: Page) => page.locator('.frames tbody [role=row] .says').allTextContents();
  const labels = (page: Page) => page.locator('.frames tbody [role=row] .frame').allTextContents();
  const count = (page: Page) => page.locator('.filter output').textContent();
  const tile = (page: Page, name: string) =>
    page
      .locator('.tiles > div', { has: page.getByText(name, { exact: true }) })
      .locator('b')
      .textContent();

  it('opens a session of its own, and shows the frames of a request', async () => {
    const { origin, server } = await serve({ onRequest: answer });
    const { page, complaints } = await visit(await profile(), `${origin}/inspect`);
    await page.getByRole('button', { name: 'Open a session' }).click();
    // All codecs have to be there for a choice among them.
    await expect.poll(async () => (await says(page)).join('\n')).toMatch(/the client has loaded .*CONTEXT/);
    await page.getByLabel('Request').fill('hello there');
    await page.keyboard.press('Enter');
    await expect.poll(() => labels(page)).toContain('← end #1');
    const [session] = [...server.sessions.values()];
    const { received, sent } = session?.stats() ?? expect.fail('the session is gone');
    const [frames] = await numbers(page, '.tiles b');
    expect(frames).toBeGreaterThan(4);
    const wire = Number((await tile(page, 'on the wire'))?.replaceAll(/[^\d]/g, ''));
    // Frames that maintain the session may be under way.
    expect(Math.abs(wire - received.wireBytes - sent.wireBytes)).toBeLessThan(64);

    await page.locator('.frames tr', { hasText: '→ request #1' }).click();
    await page.getByRole('heading', { name: 'sent · request #1' }).waitFor();
    const fields = await page.locator('.fields .name').allTextContents();
    expect(fields).toEqual(expect.arrayContaining(['kind', 'stream', 'codec and flags']));
    await page.getByRole('tab', { name: 'Content' }).click();
    expect(await page.locator('pre.content').textContent()).toBe('hello there');
    await page.getByRole('tab', { name: 'Why this codec' }).click();
    await page.getByRole('table', { name: /^Sizes of the body/ }).waitFor();
    await page.locator('.frames tr', { hasText: '← chunk #1 ×' }).click();
    await page.getByRole('tab', { name: 'Content' }).click();
    expect(await page.locator('pre.content').textContent()).toBe(ANSWER);
    expect(complaints.join('\n')).toBe('');
  });

  it('asks for the token that a server demands, and masks it', async () => {
    const { origin } = await serve({
      authenticate: ({ token }) => (token === TOKEN ? { principal: 'p' } : null),
    });
    const { page } = await visit(await profile(), `${origin}/inspect`);
    await page.getByRole('button', { name: 'Open a session' }).click();
    await page.getByText(/The session could not be opened/).waitFor();
    await page.getByLabel('Token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await expect.poll(() => labels(page)).toContain('← ACCEPT');
    await page.locator('.frames tr', { hasText: '→ HELLO' }).click();
    await page.locator('.fields .secret', { hasText: '[redacted]' }).first().waitFor();
    expect(await page.locator('.hex').textContent()).toContain('·· ·· ··');
    const text = await readFile(await saveTo(page, 'token.jsonl'), 'utf8');
    expect(text).toContain('"label":"HELLO"');
    for (const secret of [TOKEN, Buffer.from(TOKEN).toString('hex')]) {
      expect(text).not.toContain(secret);
      expect(await page.content()).not.toContain(secret);
    }
  });

  it('shows a chat page of its origin from the beginning, at the stream of an answer, through a cut', async () => {
    const { origin, port } = await serve();
    const proxy = await createCuttingProxy(port);
    open.push(async () => await proxy[Symbol.asyncDispose]());
    const context = await profile();
    // The page and the inspector share the origin of the proxy.
    const address = origin.replace(String(port), String(proxy.port));
    const { page: chat } = await visit(context, address);
    await chat.locator('body[data-state="connected"]').waitFor();
    for (const [i, text] of ['One?', 'Two?'].entries()) {
      await chat.getByLabel('Your message').fill(text);
      await chat.keyboard.press('Enter');
      await expect.poll(() => chat.locator('.answer[data-state="done"]').count()).toBe(i + 1);
    }
    const opened = context.waitForEvent('page');
    await chat.getByRole('button', { name: 'Show on the wire' }).last().click();
    const inspector = await opened;
    await inspector.getByRole('button', { name: /^Do not restrict to stream/ }).waitFor();
    await expect.poll(async () => (await labels(inspector))[0]).toMatch(/^→ request #\d+$/);
    await inspector.getByRole('tab', { name: 'Content' }).click();
    await expect.poll(() => inspector.locator('pre.content').textContent()).toContain('Two?');
    await inspector.keyboard.press('Escape');
    await expect.poll(() => labels(inspector)).toContain('→ HELLO');

    proxy.cut();
    await expect
      .poll(() => inspector.locator('.frames .said').allTextContents())
      .toContainEqual(expect.stringContaining('resumed after'));
    expect(await inspector.getByRole('img', { name: /without a connection 1 time/ }).count()).toBe(1);
    expect(await tile(inspector, 'resumed')).toMatch(/^1/);

    // Another profile has another origin's storage: it sees nothing of this one.
    const { page: stranger } = await visit(await profile(), `${address}/inspect`);
    await stranger.getByText('None is open at this address.').waitFor();
    await chat.close();
    await inspector.getByText(/The chat page is closed/).waitFor();
  });

  it('explains nothing in a chat page until an inspector asks', async () => {
    const { origin } = await serve();
    const context = await profile();
    const { page: chat } = await visit(context, origin);
    await chat.locator('body[data-state="connected"]').waitFor();
    const loaded = () =>
      chat.evaluate(
        () =>
          performance.getEntriesByType('resource').filter(({ name }) => /sharing|recorder/.test(name)).length,
      );
    await chat.waitForLoadState('networkidle');
    expect(await loaded()).toBe(0);
    const { page } = await visit(context, `${origin}/inspect`);
    await page.getByRole('button', { name: 'a new chat' }).click();
    await expect.poll(() => labels(page)).toContain('→ HELLO');
    expect(await loaded()).toBeGreaterThan(0);
  });

  it('saves what it shows, and opens it again', async () => {
    const path = join(folder, 'small.jsonl');
    const events = await recordSession();
    await writeFile(path, captureOf(events));
    const { origin } = await serve();
    const { page, complaints } = await visit(await profile(), `${origin}/inspect`);
    await openFile(page, path);
    await expect.poll(() => labels(page)).toContain('← end #1');
    await page.getByText(`small.jsonl: ${events.length} events`).waitFor();
    const showing = async () => [
      await labels(page),
      await says(page),
      await page.locator('.tiles').textContent(),
    ];
    const shown = await showing();
    const saved = await readFile(await saveTo(page, 'again.jsonl'), 'utf8');
    expect(
      saved
        .trim()
        .split('\n')
        .map((line) => parseEvent(line)),
    ).toEqual(events);
    await openFile(page, join(folder, 'again.jsonl'));
    await page.getByText(/^again.jsonl: /).waitFor();
    await expect.poll(showing).toEqual(shown);
    expect(complaints.join('\n')).toBe('');
  });

  it('says which lines of a file it cannot read', async () => {
    const path = join(folder, 'damaged.jsonl');
    const lines = (await recordSession()).map((event) => JSON.stringify(event));
    const other = JSON.stringify({ v: 1, time: new Date().toISOString(), event: 'reply', text: 'x' });
    await writeFile(path, [...lines, other, '{"v":1,', '<img src=x onerror=alert(1)>', ''].join('\n'));
    const { origin } = await serve();
    const { page } = await visit(await profile(), `${origin}/inspect`);
    await openFile(page, path);
    await page
      .getByText(
        `${lines.length} events, 1 line of other events, 2 lines could not be read (the line is not JSON)`,
      )
      .waitFor();
  });

  it('shows 5,000 frames of 4 KiB with at most 100 rows in the page, by keyboard', async () => {
    const path = join(folder, 'large.jsonl');
    // More than it keeps.
    await writeFile(path, makeCapture({ frames: 5_400, hexBytes: 4096 }));
    const { origin } = await serve();
    const { page, complaints } = await visit(await profile(), `${origin}/inspect`);
    await openFile(page, path);
    await page.getByText(/^large.jsonl: /).waitFor();
    expect(await tile(page, 'frames')).toBe('5,400');
    await page.getByText('the last 5,000 are kept').waitFor();
    const rows = () => page.locator('.frames [role=row]').count();
    expect(await rows()).toBeLessThanOrEqual(100);
    await page.getByLabel('join chunks').uncheck();
    await page.getByLabel('acks, credit, pings').check();
    await expect.poll(() => count(page)).toBe('5,000 frames');
    expect(await page.getByRole('grid').getAttribute('aria-rowcount')).toBe('5001');
    await page.getByRole('grid').focus();
    for (const [key, index] of [
      ['Home', '2'],
      ['End', '5001'],
      ['ArrowUp', '5000'],
      ['Home', '2'],
      ['ArrowDown', '3'],
    ] as const) {
      await page.keyboard.press(key);
      const selected = page.locator('.frames [aria-selected="true"]');
      await expect.poll(() => selected.getAttribute('aria-rowindex')).toBe(index);
      expect(await page.getByRole('grid').getAttribute('aria-activedescendant')).toBe(
        await selected.getAttribute('id'),
      );
      await expect.poll(() => inView(page)).toBe(true);
      expect(await rows()).toBeLessThanOrEqual(100);
    }
    expect(await page.locator('.hex pre').textContent()).toMatch(/^0000 {2}/);
    await page.getByText('4,096 bytes').waitFor();

    // Each field lights its bytes, and each byte its field.
    await page.locator('.fields tbody tr').nth(1).hover();
    await expect.poll(() => page.locator('.hex .lit i').count()).toBeGreaterThan(0);
    await page.locator('.hex').hover({ position: { x: 60, y: 14 } });
    await expect.poll(() => page.locator('.fields tr.lit').count()).toBe(1);

    await page.keyboard.press('/');
    await page.keyboard.type('#3');
    await expect.poll(() => count(page)).toMatch(/^\d+ of 5,000 frames$/);
    await page.keyboard.press('Escape');
    await expect.poll(() => count(page)).toBe('5,000 frames');
    await page.keyboard.press('ArrowRight');
    await page.getByRole('button', { name: /^Do not restrict to/ }).waitFor();
    expect(complaints.join('\n')).toBe('');
  });

  it('keeps events back while it is paused', async () => {
    const { origin } = await serve();
    const { page } = await visit(await profile(), `${origin}/inspect`);
    await page.getByRole('button', { name: 'Open a session' }).click();
    await expect.poll(() => labels(page)).toContain('← ACCEPT');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByLabel('Request').fill('meanwhile');
    await page.keyboard.press('Enter');
    const resume = page.getByRole('button', { name: /^Resume \(\d+\)$/ });
    await resume.waitFor();
    expect(await labels(page)).not.toContain('→ request #1');
    await resume.click();
    await expect.poll(() => labels(page)).toContain('→ request #1');
  });

  it('shows what parlance connect --ui sees', async () => {
    const feed = await openConnectPage({ port: 0 });
    open.push(() => feed.close());
    const [first, ...rest] = await recordSession();
    if (first !== undefined) feed.add(first);
    const { page } = await visit(await profile(), feed.url);
    await page.getByText('parlance connect', { exact: true }).waitFor();
    for (const event of rest) feed.add(event);
    await expect.poll(() => labels(page)).toContain('← end #1');
    await feed.close();
    await page.getByText('The command has ended').waitFor();
    expect(await labels(page)).toContain('← end #1');
  });

  it.each([
    ['light', {}],
    ['dark', { colorScheme: 'dark' }],
    ['forced colours', { forcedColors: 'active' }],
    ['a phone', { viewport: { width: 390, height: 844 } }],
  ] as const)('has no faults that axe can find: %s', async (_name, look) => {
    const path = join(folder, 'axe.jsonl');
    await writeFile(path, captureOf(await recordSession()));
    const { origin } = await serve();
    const { page } = await visit(await profile(look), `${origin}/inspect`);
    expect(await faultsOf(page)).toEqual([]);
    await openFile(page, path);
    await expect.poll(() => labels(page)).toContain('← end #1');
    expect(await faultsOf(page)).toEqual([]);
    await page.locator('.frames tr', { hasText: '→ request #1' }).click();
    for (const tab of ['Fields', 'Content', 'Why this codec']) {
      await page.getByRole('tab', { name: tab }).click();
      expect([tab, await faultsOf(page)]).toEqual([tab, []]);
    }
  });

  it('has room for everything from 320 to 1440 pixels', async () => {
    const path = join(folder, 'sizes.jsonl');
    await writeFile(path, captureOf(await recordSession()));
    const { origin } = await serve();
    const { page } = await visit(await profile(), `${origin}/inspect`);
    const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
    for (const state of ['empty', 'filled']) {
      if (state === 'filled') {
        await openFile(page, path);
        await expect.poll(() => labels(page)).toContain('← end #1');
        await page.locator('.frames tr', { hasText: '→ request #1' }).click();
      }
      for (const width of [1440, 1024, 768, 390, 320]) {
        await page.setViewportSize({ width, height: 800 });
        expect([state, width, await fits()]).toEqual([state, width, true]);
      }
    }
    // Where only one has room, the details cover the frames until the user goes back.
    expect(await page.locator('.list').isVisible()).toBe(false);
    await page.getByRole('button', { name: '← Frames' }).click();
    expect(await page.locator('.list').isVisible()).toBe(true);
    expect(await page.locator('.details').isVisible()).toBe(false);
  });

  /** A session with one request, as a tap on Node records it. */
  async function recordSession(): Promise<InspectionEvent[]> {
    const server = createServer({ onRequest: answer });
    open.push(() => server.close());
    const { url } = await server.listen();
    const events: InspectionEvent[] = [];
    const session = await connect(url, { WebSocket: tap(WebSocket, (event) => events.push(event)) });
    await session.request('what travels here?');
    await session.close();
    await expect.poll(() => events.at(-1)).toMatchObject({ event: 'state', state: 'closed' });
    return events.map((event) => JSON.parse(JSON.stringify(event)) as InspectionEvent);
  }
});

/** The faults that axe finds, best practices included. */
async function faultsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return await page.evaluate(async () => {
    const { violations } = await (window as unknown as { axe: typeof axe }).axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  });
}

/** Whether the selected row can be seen. */
async function inView(page: Page): Promise<boolean> {
  return await page.evaluate(() => {
    const row = document.querySelector('.frames [aria-selected="true"]')?.getBoundingClientRect();
    const room = document.querySelector('.scroll')?.getBoundingClientRect();
    return row !== undefined && room !== undefined && row.top >= room.top && row.bottom <= room.bottom + 1;
  });
}

async function numbers(page: Page, selector: string): Promise<number[]> {
  const texts = await page.locator(selector).allTextContents();
  return texts.map((text) => Number(text.replaceAll(',', '')));
}
