import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { expect, it } from 'vitest';

it('a session over HTTP behind a parser that has read its bodies fails at once, and the log says why', async () => {
  const errors: unknown[] = [];
  const ignore = () => {};
  const logger = {
    debug: ignore,
    info: ignore,
    warn: ignore,
    error: ({ event }: Readonly<Record<string, unknown>>) => errors.push(event),
  };
  await using server = createServer({ logger });
  const http = createHttpServer(async (request, response) => {
    await text(request); // as express.text() does
    server.respond(request, response);
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  const { port } = http.address() as AddressInfo;
  const connected = connect(`http://127.0.0.1:${port}`, { transports: ['http'], reconnect: false });
  await expect(connected).rejects.toThrow('HTTP 500');
  expect(errors).toEqual(['http.body_taken']);
  http.close();
});
