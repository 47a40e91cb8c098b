import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { InspectionEvent } from '@parlance/client/inspect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ConnectPage, openConnectPage } from './connect-page.js';

const EVENT: InspectionEvent = {
  v: 1,
  time: '2026-01-01T00:00:00.000Z',
  event: 'state',
  state: 'closed',
  session: 'first',
};

describe('the page of connect --ui', () => {
  let folder: string;
  let page: ConnectPage;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'parlance-connect-'));
    for (const name of ['index', 'inspect'])
      writeFileSync(join(folder, `${name}.html`), `<title>${name}</title>`);
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  beforeEach(async () => {
    page = await openConnectPage({ port: 0, folder });
  });
  afterEach(async () => await page.close());

  const key = () => new URL(page.url).hash.replace('#key=', '');
  const get = (path: string, init: RequestInit = {}) => fetch(new URL(path, page.url), init);
  const withKey = (given: string) => ({ headers: { authorization: `Bearer ${given}` } });

  it('is the inspector alone', async () => {
    const shown = await get('/inspect');
    expect([shown.status, await shown.text()]).toEqual([200, '<title>inspect</title>']);
    for (const path of ['/', '/session', '/metrics']) expect((await get(path)).status).toBe(404);
  });

  it('gives events to those who have its key, from the beginning and as they come', async () => {
    page.add(EVENT);
    const response = await get('/events', withKey(key()));
    const reader = (response.body as ReadableStream<Uint8Array<ArrayBuffer>>)
      .pipeThrough(new TextDecoderStream())
      .getReader();
    let text = '';
    const until = async (expected: string) => {
      while (!text.includes(expected))
        text += (await reader.read()).value ?? expect.fail(`ended after ${text}`);
    };
    await until('first');
    page.add({ ...EVENT, session: 'second' });
    await until('second');
    const sessions = text
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { session: string }).session);
    expect(sessions).toEqual(['first', 'second']);
    await page.close();
    expect((await reader.read()).done).toBe(true);
    page = await openConnectPage({ port: 0, folder });
  });

  it('refuses everyone else', async () => {
    expect((await get('/events')).status).toBe(401);
    for (const wrong of ['', 'x', `${key()}x`, key().slice(1)])
      expect((await get('/events', withKey(wrong))).status).toBe(401);
    expect((await get('/events', { ...withKey(key()), method: 'POST' })).status).toBe(405);
    const { port } = new URL(page.url);
    const status = (headers: Record<string, string>) =>
      new Promise<number | undefined>((resolve, reject) => {
        const asked = request({ host: '127.0.0.1', port, path: '/events', headers }, (response) => {
          response.destroy();
          resolve(response.statusCode);
        });
        asked.on('error', reject).end();
      });
    const authorization = `Bearer ${key()}`;
    expect(await status({ authorization })).toBe(200);
    expect(await status({ authorization, host: 'evil.example' })).toBe(403);
    expect(await status({ authorization, origin: 'http://evil.example' })).toBe(403);
  });

  it('keeps a bounded number of events for late pages, and serves a bounded number of pages', async () => {
    for (let i = 0; i < 6_001; i++) page.add({ ...EVENT, session: `s${i}` });
    // `fetch` cancels a response that is not held any more, when memory is collected.
    const opened = new Map<AbortController, Response>();
    const open = async () => {
      const controller = new AbortController();
      const response = await get('/events', { ...withKey(key()), signal: controller.signal });
      opened.set(controller, response);
      return response;
    };
    const first = await open();
    const { value } = await (first.body as ReadableStream<Uint8Array<ArrayBuffer>>)
      .pipeThrough(new TextDecoderStream())
      .getReader()
      .read();
    expect(value?.split('\n')[0]).toContain('"s1"');
    for (let count = 2; count <= 8; count++) expect((await open()).status).toBe(200);
    expect((await open()).status).toBe(503);
    for (const controller of opened.keys()) controller.abort();
  });

  it('closes although a page does not read', async () => {
    const big = { ...EVENT, session: 'x'.repeat(64 * 1024) };
    for (let i = 0; i < 200; i++) page.add(big);
    const { port } = new URL(page.url);
    const headers = { authorization: `Bearer ${key()}` };
    await new Promise<void>((resolve, reject) => {
      const asked = request({ host: '127.0.0.1', port, path: '/events', headers, agent: false });
      // Its answer stays where it is.
      asked.on('response', (response) => resolve(void response.pause()));
      asked.on('error', reject).end();
    });
    await page.close();
    page = await openConnectPage({ port: 0, folder });
  });

  it('closes although a browser holds a connection on which it asks for nothing', async () => {
    const held = connect(Number(new URL(page.url).port), '127.0.0.1');
    await once(held, 'connect');
    // The server has accepted it when it answers on a later one.
    expect((await get('/events')).status).toBe(401);
    const ended = once(held.resume(), 'close');
    await page.close();
    await ended;
    page = await openConnectPage({ port: 0, folder });
  });

  it('lets a page read its last events before it closes', async () => {
    const response = await get('/events', withKey(key()));
    const big = { ...EVENT, session: 'x'.repeat(64 * 1024) };
    for (let i = 0; i < 200; i++) page.add(big);
    page.add({ ...EVENT, session: 'last' });
    const [text] = await Promise.all([response.text(), page.close()]);
    expect(text.trim().split('\n')).toHaveLength(201);
    page = await openConnectPage({ port: 0, folder });
  });
});
