import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { expect, it } from 'vitest';

it('a session over HTTP works below a path at which an app has mounted it, as over a WebSocket', async () => {
  await using server = createServer({ onRequest: ({ text }) => text });
  const http = createHttpServer((request: IncomingMessage & { originalUrl?: string }, response) => {
    // As Express does for app.use('/session', …) and app.use('/ops', …).
    request.originalUrl = request.url ?? '';
    request.url = request.originalUrl.replace(/^\/(?:session|ops)/, '');
    if (!server.respond(request, response)) response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  server.attach(http);
  const { port } = http.address() as AddressInfo;
  for (const transport of ['websocket', 'http'] as const) {
    const session = await connect(`http://127.0.0.1:${port}`, { transports: [transport] });
    expect([await session.request('hello'), session.transport]).toMatchObject([{ text: 'hello' }, transport]);
    await session.close();
  }
  expect((await fetch(`http://127.0.0.1:${port}/ops/healthz`)).status).toBe(200);
  http.close();
});
