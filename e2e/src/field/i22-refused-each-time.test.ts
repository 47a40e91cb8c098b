import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { expect, it, onTestFinished, vi } from 'vitest';

it('a client whose connections are lost soon, each time, comes back later and later', async () => {
  await using server = createServer({ onRequest: ({ text }) => text });
  // As a proxy that refuses a body: the session resumes, and the same body follows again.
  const http = createHttpServer((request, response) => {
    if (request.url === '/session/frames') response.writeHead(413).end();
    else server.respond(request, response);
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  let share = 0;
  const random = vi.spyOn(Math, 'random').mockImplementation(() => share);
  onTestFinished(() => random.mockRestore());
  const session = await connect(`http://127.0.0.1:${(http.address() as AddressInfo).port}`, {
    transports: ['http'],
    reconnect: { minDelayMs: 60_000, maxDelayMs: 1e9 },
    timers: { closingTimeoutMs: 50 },
  });
  let resumed = 0;
  session.on('state', (state) => {
    if (state === 'established') resumed++;
    if (resumed === 5) share = 1;
  });
  session.request('x').catch(() => {});
  await expect.poll(() => resumed).toBe(5);
  await expect.poll(() => (session.nextAttemptAt ?? 0) - Date.now()).toBeGreaterThan(20 * 60_000);
  await session.close();
  http.close();
});
