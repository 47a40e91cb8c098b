import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from '@parlance/client';
import { createServer, type Server } from '@parlance/server';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { buildUserInterface } from '../../scripts/build-ui.js';
import { chromiumMissing, launchChromium, openPage } from './chat-page.js';

/** The page of the admin port, in front of 200 sessions. */

const TOKEN = 'the-operator-of-these-tests';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SCREENS = process.env['SCREENSHOTS'];

describe.skipIf(chromiumMissing() !== undefined)('the dashboard', () => {
  let browser: Browser;
  let server: Server;

  beforeAll(async () => {
    await buildUserInterface();
    browser = await launchChromium();
    server = createServer({
      admin: { token: TOKEN, mode: 'operate' },
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

  async function violations(page: Page): Promise<string[]> {
    // The policy of the page allows no script from here; the protocol of the browser adds it regardless.
    await page.evaluate(AXE);
    return await page.evaluate(async () => {
      const { axe } = globalThis as unknown as {
        axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
      };
      const found = (await axe.run()).violations;
      return found.map(
        ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 100)).join(' | ')}`,
      );
    });
  }

  /** No state may have faults, at any width, in any scheme. */
  async function look(page: Page, name: string): Promise<void> {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      expect([name, colorScheme, await violations(page)]).toEqual([name, colorScheme, []]);
      if (SCREENS !== undefined)
        await page.screenshot({ path: `${SCREENS}/admin-${name}-${colorScheme}.png` });
    }
    await page.emulateMedia({ colorScheme: 'light' });
    for (const width of [320, 390, 768, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect([name, width, overflow]).toEqual([name, width, 0]);
      if (SCREENS !== undefined && width < 1440)
        await page.screenshot({ path: `${SCREENS}/admin-${name}-${width}.png`, fullPage: true });
    }
  }

  it('asks for the token, shows 200 sessions, closes one, and follows a drain to its end', async () => {
    const { url } = await server.listen();
    const sessions = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        connect(url, {
          WebSocket,
          token: i % 2 === 0 ? 'acme' : `user-${i}`,
          reconnect: false,
          onError() {},
        }),
      ),
    );
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
    await look(page, 'token');
    await page.getByRole('textbox', { name: 'Token' }).fill('a-token-of-someone-else');
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByText('The server does not accept this token.').waitFor();
    expect(complaints.splice(0)).toHaveLength(2);
    await page.getByRole('textbox', { name: 'Token' }).fill(TOKEN);
    await page.getByRole('button', { name: 'Open' }).click();
    await page.locator('tbody tr').nth(199).waitFor();
    expect(await page.locator('tbody tr').count()).toBe(200);
    await page.getByText('200 connected · 0 suspended · 0 waiting').waitFor();
    await page.getByText('SECURITY_POLICY 4401').waitFor();
    await page.locator('#events b', { hasText: 'session.accepted' }).first().waitFor();
    // Two looks are needed for rates.
    await page.getByText('on the wire,').waitFor();
    await look(page, 'live');
    await page.emulateMedia({ forcedColors: 'active' });
    if (SCREENS !== undefined) await page.screenshot({ path: `${SCREENS}/admin-live-forced.png` });
    await page.emulateMedia({ forcedColors: 'none' });

    await page.getByPlaceholder('ID, principal, address').fill('user-7');
    await expect.poll(() => page.locator('tbody tr').count()).toBe(6);
    await page.getByPlaceholder('ID, principal, address').fill('user-77');
    await expect.poll(() => page.locator('tbody tr').count()).toBe(1);
    await page.getByRole('button', { name: /^Close session/ }).click();
    await page.getByRole('heading', { name: 'Close this session?' }).waitFor();
    await look(page, 'confirm');
    await page.getByRole('button', { name: 'Cancel' }).click();
    expect(server.sessions.size).toBe(200);
    await page.getByRole('button', { name: /^Close session/ }).click();
    await page.getByRole('button', { name: 'Close the session' }).click();
    expect(await sessions[77]?.closed).toMatchObject({ reason: 'closed by the operator of the server' });
    await page.getByPlaceholder('ID, principal, address').fill('');
    await page.getByText('199 connected').first().waitFor();

    // The tab keeps the token.
    await page.reload();
    await page.locator('tbody tr').nth(198).waitFor();
    await page.getByRole('button', { name: 'Drain…' }).click();
    await page.getByRole('button', { name: 'Drain the server' }).click();
    // Five sessions have a request under way.
    await page.getByText('194 of 199 sessions have left').waitFor();
    await look(page, 'draining');
    for (const session of sessions.slice(0, 5)) await session.close();
    await page.getByText('all sessions have left').waitFor();
    await Promise.allSettled(staying);
    await expect.poll(() => page.locator('#events b', { hasText: 'server.drained' }).count()).toBe(1);
    expect(complaints).toEqual([]);
    await server.close();
    await page.getByText('The server does not answer.').or(page.getByText('No answer')).first().waitFor();
    await look(page, 'lost');
  });
});
