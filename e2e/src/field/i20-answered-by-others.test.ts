import { once } from 'node:events';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect as open } from 'node:net';
import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { expect, it } from 'vitest';

/** A framework answers a request that `respond` has taken: an error that this throws later would end the process. */

function logged() {
  const events: unknown[] = [];
  const ignore = () => {};
  const error = ({ event }: Readonly<Record<string, unknown>>) => void events.push(event);
  return { events, logger: { debug: ignore, info: ignore, warn: ignore, error } };
}

async function serve(listener: RequestListener) {
  const http = createHttpServer(listener).listen(0, '127.0.0.1');
  await once(http, 'listening');
  return { http, port: (http.address() as AddressInfo).port };
}

it('a client over HTTP fails at once if a framework answers as well, as Koa without ctx.respond', async () => {
  const { events, logger } = logged();
  await using server = createServer({ logger });
  const { http, port } = await serve((request, response) => {
    server.respond(request, response);
    response.writeHead(404).end();
  });
  const connected = connect(`http://127.0.0.1:${port}`, { transports: ['http'], reconnect: false });
  await expect(connected).rejects.toThrow('HTTP 404');
  expect(events).toEqual(['http.answered']);
  http.close();
});

it('so does a request of a client that is connected', async () => {
  const { events, logger } = logged();
  await using server = createServer({ logger, onRequest: ({ text }) => text });
  const { http, port } = await serve((request, response) => {
    server.respond(request, response);
    if (request.url?.endsWith('frames') === true) response.writeHead(404).end();
  });
  const url = `http://127.0.0.1:${port}`;
  const session = await connect(url, { transports: ['http'], reconnect: false });
  await expect(session.request('x')).rejects.toMatchObject({ code: 'session_lost' });
  expect(events).toContain('http.answered');
  http.close();
});

it.each(['stream', 'frames'])(
  'a body that comes after the time limit of an app ends nothing (%s)',
  async (path) => {
    const { events, logger } = logged();
    await using server = createServer({ logger });
    const { http, port } = await serve((request, response) => {
      server.respond(request, response);
      response.writeHead(503).end();
    });
    const socket = open(port, '127.0.0.1');
    const type = 'Content-Type: application/octet-stream';
    socket.write(
      `POST /session/${path} HTTP/1.1\r\nHost: localhost\r\n${type}\r\nContent-Length: 10\r\n\r\n`,
    );
    expect(String((await once(socket, 'data'))[0])).toContain('HTTP/1.1 503');
    // A record of four bytes, and half of another one.
    socket.write(Buffer.from([4, 0, 0, 0, 1, 2, 3, 4, 5, 6]));
    await expect.poll(() => events).toEqual(['http.answered']);
    socket.destroy();
    http.close();
  },
);
