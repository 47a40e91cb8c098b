import { once } from 'node:events';
import { Subprotocol } from '@parlance/protocol';
import { createServer } from '@parlance/server';
import { beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { buildUserInterface } from '../../../scripts/build-ui.js';
import { type Serving, startServing } from '../kit/cli-process.js';

/** The answers of `parlance serve` to browsers. */

const TIMEOUT = 60_000;

describe('parlance serve', { timeout: TIMEOUT }, () => {
  beforeAll(buildUserInterface, TIMEOUT);

  const addressOf = ({ url }: Serving) => url.replace(/^ws/, 'http').replace('/session', '/');

  async function withServer(args: readonly string[], run: (address: string) => Promise<void>) {
    const serving = await startServing(args);
    try {
      await run(addressOf(serving));
    } finally {
      await serving.stop();
    }
  }

  it('shows the chat page at its root, and every file that the page names', async () => {
    await withServer([], async (address) => {
      const page = await fetch(address, { redirect: 'error' });
      expect(page.status).toBe(200);
      expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
      const html = await page.text();
      expect(html).toContain('Parlance');
      const files = [...html.matchAll(/(?:src|href)="(\.\/[^"]+)"/g)].map(([, path = '']) => path);
      expect(files.length).toBeGreaterThan(1);
      for (const path of files) expect((await fetch(new URL(path, address))).status).toBe(200);
    });
  });

  it('says where the page is', async () => {
    const serving = await startServing();
    expect(serving.log()).toContain(`"page":"${addressOf(serving)}"`);
    expect(serving.log()).toContain(`"inspector":"${addressOf(serving)}inspect"`);
    await serving.stop();
  });

  it('shows nothing with --no-ui', async () => {
    await withServer(['--no-ui'], async (address) => {
      const page = await fetch(address);
      expect([page.status, page.headers.get('upgrade')]).toEqual([426, 'websocket']);
    });
  });

  it('lets nothing touch its connections: the actions of the demo do not exist', async () => {
    await withServer([], async (address) => {
      expect(await (await fetch(address)).text()).not.toContain('data-demo');
      const socket = new WebSocket(address.replace(/^http(.*)$/, 'ws$1session?tab=t'), Subprotocol.BINARY);
      await once(socket, 'open');
      for (const action of ['cut', 'freeze', 'restart']) {
        const response = await fetch(`${address}demo/${action}?tab=t`, {
          method: 'POST',
          headers: { origin: address.slice(0, -1) },
        });
        expect([action, response.status]).toEqual([action, 426]);
      }
      expect(socket.readyState).toBe(WebSocket.OPEN);
      socket.close();
    });
  });
});

describe('respond, of listen', () => {
  it('answers after the status pages, and the server what it leaves', async () => {
    await using server = createServer();
    const asked: string[] = [];
    const { port } = await server.listen({
      respond({ url = '' }, response) {
        asked.push(url);
        if (url !== '/own') return false;
        response.end('own');
        return true;
      },
    });
    const get = async (path: string) => await fetch(`http://127.0.0.1:${port}${path}`);
    expect(await (await get('/own')).text()).toBe('own');
    expect((await get('/other')).status).toBe(426);
    expect(await (await get('/healthz')).text()).toBe('alive\n');
    expect(asked).toEqual(['/own', '/other']);
  });
});
