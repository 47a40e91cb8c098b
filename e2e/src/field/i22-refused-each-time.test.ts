import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { expect, it, onTestFinished, vi } from 'vitest';

it('a client whose connections are lost soon, each time, comes back later and later, up to 2 s', async () => {
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
    reconnect: { minDelayMs: 1, maxDelayMs: 1e9 },
    timers: { closingTimeoutMs: 50 },
  });
  let resumed = 0;
  session.on('state', (state) => {
    if (state === 'established' && ++resumed === 15) share = 1;
  });
  session.request('x').catch(() => {});
  let longest = 0;
  const measured = () => {
    longest = Math.max(longest, (session.nextAttemptAt ?? 0) - Date.now());
    return longest;
  };
  await expect.poll(measured, { interval: 20 }).toBeGreaterThan(1_000);
  expect(longest).toBeLessThanOrEqual(2_000);
  await session.close();
  http.close();
});
