import { afterEach, expect, it } from 'vitest';
import { createPeers, failure } from '../kit/peers.js';

/** The error of a request that is under way when a session is closed says which end has closed it. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

async function setUp() {
  const aborts: unknown[] = [];
  const { server, url } = await peers.serve({
    async onRequest(_request, { signal }) {
      await new Promise<void>((resolve) =>
        signal.addEventListener('abort', () => {
          aborts.push(signal.reason);
          resolve();
        }),
      );
      return '';
    },
  });
  const session = await peers.dial(url);
  const request = failure(session.request('x'));
  await expect.poll(() => [...server.sessions.values()][0]?.stats().openStreams).toBe(1);
  const [served] = [...server.sessions.values()];
  return { server, session, served, request, aborts };
}

const CLOSED = { code: 'session_closed', message: 'the session was closed' };

it('its own', async () => {
  const { session, request } = await setUp();
  await session.close();
  expect(await request).toMatchObject({ ...CLOSED, side: 'local' });
});

it.each([
  ['the server', undefined],
  ['the application of the server', 'kicked'],
])('%s', async (_who, code) => {
  const { server, served, request } = await setUp();
  if (code === undefined) await server.close({ sessions: 'end' });
  else await served?.close({ code });
  expect(await request).toMatchObject({ ...CLOSED, side: 'remote' });
});
