import { type ClientSession, connect } from '@parlance/client';
import { admin, createServer, type Server } from '@parlance/server';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { chromiumMissing, launchChromium, openPage } from '../kit/chat-page.js';
import { freePort, startServing } from '../kit/cli-process.js';
import { look } from '../kit/looking.js';

/** The page of the admin port, in front of 200 sessions. */

const TOKEN = 'the-operator-of-these-tests';

describe.skipIf(chromiumMissing() !== undefined)('the dashboard', () => {
  let browser: Browser;
  let server: Server;

  beforeAll(async () => {
    browser = await launchChromium();
    server = createServer({
      features: [admin({ token: TOKEN, mode: 'operate' })],
      limits: {
        sessionsPerIp: Infinity,
        sessionsPerMinutePerIp: Infinity,
        connectionsPerMinutePerIp: Infinity,
      },
      authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
      async *onRequest(request, { signal }) {
        yield `about ${request.text}: `;
        // Until the client leaves, or the deadline of a drain.
        if (request.text === 'stay')
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        yield 'done';
      },
    });
  });
  afterAll(async () => {
    await server.close();
    await browser.close();
  });

  it('asks for the token, shows 200 sessions, closes one, and follows a drain to its end', async () => {
    const { url } = await server.listen();
    const sessions: ClientSession[] = [];
    for (let i = 0; i < 200; i++) {
      const token = i % 2 === 0 ? 'acme' : `user-${i}`;
      sessions.push(await connect(url, { WebSocket, token, reconnect: false, onError() {} }));
    }
    await Promise.all(sessions.slice(0, 40).map((session, i) => session.request(`question ${i}`)));
    const staying = sessions.slice(0, 5).map(async (session) => {
      for await (const _part of session.stream('stay'));
    });
    for (const each of staying) each.catch(() => {});
    await connect(url, { WebSocket, reconnect: false }).catch(() => {});

    await using opened = await openPage(browser, server.admin?.url ?? '', {
      viewport: { width: 1440, height: 900 },
    });
    const { page, complaints } = opened;
    await look(page, 'admin-token');
    await page.getByRole('textbox', { name: 'Token' }).fill('a-token-of-someone-else');
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByText('The server does not accept this token.').waitFor();
    expect(complaints.splice(0)).toHaveLength(2);
    await page.getByRole('textbox', { name: 'Token' }).fill(TOKEN);
    await page.getByRole('button', { name: 'Open' }).click();
    await page.locator('tbody tr').nth(199).waitFor();
    expect(await page.locator('tbody tr').count()).toBe(200);
    await page.locator('#tiles').getByText('200 live').waitFor();
    await page.getByText('0\u00a0away · 0\u00a0slow · 0\u00a0silent').waitFor();
    await page.getByText('SECURITY_POLICY 4401').waitFor();
    await page.locator('#events b', { hasText: 'opened' }).first().waitFor();
    // Two looks are needed for rates.
    await page.getByText(/uncompressed, .* on the wire/).waitFor();
    await look(page, 'admin-live');

    await page.getByPlaceholder('principal, ID, address').fill('user-7');
    await expect.poll(() => page.locator('tbody tr').count()).toBe(6);
    await page.getByPlaceholder('principal, ID, address').fill('user-77');
    await expect.poll(() => page.locator('tbody tr').count()).toBe(1);
    await page.getByRole('button', { name: /^Close session/ }).click();
    await page.getByRole('heading', { name: 'Close this session?' }).waitFor();
    await look(page, 'admin-confirm');
    await page.getByRole('button', { name: 'Cancel' }).click();
    expect(server.sessions.size).toBe(200);
    await page.getByRole('button', { name: /^Close session/ }).click();
    await page.getByRole('button', { name: 'Close the session' }).click();
    expect(await sessions[77]?.closed).toMatchObject({ reason: 'closed by the operator of the server' });
    await page.getByPlaceholder('principal, ID, address').fill('');
    await page.locator('#tiles').getByText('199 live').waitFor();

    // The tab keeps the token.
    await page.reload();
    await page.locator('tbody tr').nth(198).waitFor();
    // Its deadline is not what ends this drain, however slow the machine is.
    await page.route('**/admin/drain', (route) => route.continue({ postData: '{"timeoutMs":3600000}' }));
    await page.getByRole('button', { name: 'Drain…' }).click();
    await page.getByRole('button', { name: 'Drain the server' }).click();
    // Five sessions have a request under way.
    await page.getByText('194 of 199 sessions have left').waitFor();
    await look(page, 'admin-draining');
    for (const session of sessions.slice(0, 2)) await session.close();
    await page.getByText('196 of 199 sessions have left').waitFor();
    const finish = page.getByRole('button', { name: 'Close the rest now' });
    await finish.click();
    await page.getByRole('heading', { name: 'Close the sessions that are left?' }).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    expect(server.sessions.size).toBe(3);
    await finish.click();
    await page.getByRole('button', { name: 'Close them now' }).click();
    await page.getByText('no sessions are left').waitFor();
    await Promise.allSettled(staying);
    await page.locator('#events li', { hasText: /server drained .*ended 196 · interrupted 3/ }).waitFor();
    expect(await finish.isVisible()).toBe(false);
    expect(complaints).toEqual([]);
    await server.close();
    await page.getByText(/^The server is away for/).waitFor();
    await look(page, 'admin-lost');
  });

  it('keeps what it has seen while its server is killed and started again, and hides no control', async () => {
    const ports = ['--port', await freePort(), '--admin-port', await freePort(), '--admin-operate'];
    const begin = () => startServing(ports, { PARLANCE_ADMIN_TOKEN: TOKEN });
    const first = await begin();
    const url = `http://127.0.0.1:${ports[3]}/`;
    const session = await connect(first.url, { WebSocket, onError() {} });
    await session.request('hello');
    await using opened = await openPage(browser, `${url}#token=${TOKEN}`, {
      viewport: { width: 1440, height: 900 },
      reducedMotion: 'reduce',
    });
    const { page } = opened;
    const row = page.locator('button.open');
    await row.waitFor();
    // The token is in no address that the browser remembers.
    expect(page.url()).toBe(url);
    // The figures do not wait for the library of the charts.
    await page.locator('.plot canvas').first().waitFor();
    const loaded = await page.evaluate(() =>
      performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname),
    );
    const charts = loaded.findIndex((path) => path.startsWith('/assets/charts-'));
    expect(charts).toBeGreaterThan(loaded.indexOf('/admin/state'));

    await row.click();
    await page.locator('.marks', { hasText: 'opened' }).getByText('last of 1').waitFor();
    await page.locator('#events b', { hasText: 'opened' }).waitFor();
    // They are not of the present if the server is away.
    const captions = await page.locator('#charts .muted').allTextContents();
    expect(captions.map((text) => text.split(':')[0])).toEqual(['last', 'last', 'last']);
    expect(captions.at(-1)).toMatch(/^last: (?:1 reply|0 replies|unknown)$/);
    expect(await page.evaluate(() => document.getAnimations().length)).toBe(0);
    await look(page, 'admin-timeline');
    for (const dir of ['ltr', 'rtl'])
      for (const width of [390, 768, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        await page.evaluate((value) => {
          document.documentElement.dir = value;
        }, dir);
        expect([dir, width, await hiddenControls(page)]).toEqual([dir, width, []]);
        expect([dir, width, await page.locator('#rows td > i').evaluate(isBesideText)]).toEqual([
          dir,
          width,
          true,
        ]);
        expect([dir, width, await page.evaluate(overlapOfAge)]).toEqual([dir, width, 0]);
      }
    await page.evaluate(() => {
      document.documentElement.dir = 'ltr';
    });
    expect(await tabOrder(page, 7)).toEqual(['range', 'drain', 'find', 'show', 'sort', 'rows', 'open']);
    for (const range of ['1 h', 'since start', '5 min']) await page.getByText(range, { exact: true }).click();

    await first.stop('SIGKILL');
    await page.getByText(/^The server is away for [1-9]/).waitFor();
    await page.locator('#events b', { hasText: 'server is away' }).waitFor();
    expect(await page.locator('#events b', { hasText: 'opened' }).count()).toBeGreaterThan(0);
    await look(page, 'admin-away');
    const second = await begin();
    const back = page.locator('#events li', { hasText: /server restarted away for \d/ });
    await back.waitFor();
    await page.getByText(/^The server is away/).waitFor({ state: 'detached' });
    await page.locator('#events b', { hasText: 'server started' }).first().waitFor();
    // The events of the killed process are still there, beneath.
    const words = await page.locator('#events b').allTextContents();
    expect(words.lastIndexOf('opened')).toBeGreaterThan(words.indexOf('server is away'));
    await session.close();
    await second.stop();
  });
});

/** Controls that are cut off at a side of the page, or lie beneath something else, once they are scrolled to. */
function hiddenControls(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const hidden: string[] = [];
    for (const control of document.querySelectorAll<HTMLElement>(
      'button, select, input[type=search], #ranges span',
    )) {
      if (!control.checkVisibility()) continue;
      control.scrollIntoView({ block: 'center', inline: 'nearest' });
      const { left, right, top, bottom } = control.getBoundingClientRect();
      const found = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      const isWhole = left >= 0 && right <= document.documentElement.clientWidth;
      if (!isWhole || !control.contains(found)) hidden.push(control.outerHTML.slice(0, 80));
    }
    return hidden;
  });
}

/** The controls that the key Tab reaches, from the beginning of the page. */
async function tabOrder(page: Page, steps: number): Promise<string[]> {
  await page.locator('h1').evaluate((title) => {
    title.tabIndex = -1;
    title.focus();
  });
  const order: string[] = [];
  for (let i = 0; i < steps; i++) {
    await page.keyboard.press('Tab');
    order.push(
      await page.evaluate(() => {
        const { id = '', className = '', name = '' } = (document.activeElement ?? {}) as HTMLInputElement;
        return id || name || className;
      }),
    );
  }
  return order;
}

/** Runs in the page: whether a dot stands in the line of the words after it. */
function isBesideText(dot: Element): boolean {
  const [words] = dot.nextElementSibling?.getClientRects() ?? [];
  return words !== undefined && words.top < dot.getBoundingClientRect().bottom;
}

/** Runs in the page: by how many pixels the button of a session with long words covers its age. */
function overlapOfAge(): number {
  const [row] = document.querySelectorAll('#rows tbody tr') as NodeListOf<HTMLTableRowElement>;
  const [name, state, age] = (row as HTMLTableRowElement).cells;
  const close = (row as HTMLTableRowElement).cells[7];
  for (const text of [name?.querySelector('span'), state?.querySelector('span')])
    if (text) text.textContent = 'a-name@of-many-letters.example is slow for 59 s';
  const [left, right] = [age, close].map((cell) => (cell as Element).getBoundingClientRect());
  if (left === undefined || right === undefined) return Number.NaN;
  return Math.max(0, Math.round(Math.min(left.right - right.left, right.right - left.left)));
}
