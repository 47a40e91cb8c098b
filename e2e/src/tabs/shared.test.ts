import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { afterEach, expect, it, vi } from 'vitest';
import WebSocket from 'ws';

/** `shared` where there are no tabs. */

afterEach(() => void vi.unstubAllGlobals());

it('is a session of its own on Node, and says so once', async () => {
  await using server = createServer({ onRequest: (request) => `re: ${request.text}` });
  const { url } = await server.listen();
  const lines: unknown[] = [];
  const log = (fields: unknown) => void lines.push(fields);
  const logger = { debug: log, info: log, warn: log, error: log };
  await using one = await connect(url, { shared: true, logger });
  await using two = await connect(url, { shared: { worker: '/w.js' }, WebSocket });
  expect(one.id).not.toBe(two.id);
  expect((await one.request('x')).text).toBe('re: x');
  expect(lines).toContainEqual({ event: 'shared.alone' });
});

it('refuses what could not be shared in a page, on Node too', async () => {
  const onRequest = () => '';
  await expect(connect('ws://127.0.0.1:1', { shared: true, WebSocket, onRequest })).rejects.toMatchObject({
    code: 'invalid_option',
    message: expect.stringContaining('onRequest'),
  });
  const wrong = { shared: 'yes' } as unknown as { shared: boolean };
  await expect(connect('ws://127.0.0.1:1', wrong)).rejects.toMatchObject({ code: 'invalid_option' });
});

it('stops when its signal aborts before its token is there', async () => {
  vi.stubGlobal('SharedWorker', class {});
  const aborting = new AbortController();
  const token = () => {
    setImmediate(() => aborting.abort(new Error('enough')));
    return new Promise<string>(() => {});
  };
  const connecting = connect('ws://127.0.0.1:1', { shared: true, token, signal: aborting.signal });
  await expect(connecting).rejects.toThrow('enough');
});
