import { type ClientSession, connect } from '@parlance/client';
import { admin, createServer, type Server } from '@parlance/server';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { chromiumMissing, launchChromium, openPage } from '../kit/chat-page.js';
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
    await page.getByText('200 connected · 0 suspended · 0 waiting').waitFor();
    await page.getByText('SECURITY_POLICY 4401').waitFor();
    await page.locator('#events b', { hasText: 'session.accepted' }).first().waitFor();
    // Two looks are needed for rates.
    await page.getByText('on the wire,').waitFor();
    await look(page, 'admin-live');

    await page.getByPlaceholder('ID, principal, address').fill('user-7');
    await expect.poll(() => page.locator('tbody tr').count()).toBe(6);
    await page.getByPlaceholder('ID, principal, address').fill('user-77');
    await expect.poll(() => page.locator('tbody tr').count()).toBe(1);
    await page.getByRole('button', { name: /^Close session/ }).click();
    await page.getByRole('heading', { name: 'Close this session?' }).waitFor();
    await look(page, 'admin-confirm');
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
    await page.locator('#events li', { hasText: /server\.drained .*left 196 · interrupted 3/ }).waitFor();
    expect(await finish.isVisible()).toBe(false);
    expect(complaints).toEqual([]);
    await server.close();
    await page.getByText('The server does not answer.').or(page.getByText('No answer')).first().waitFor();
    await look(page, 'admin-lost');
  });
});
