import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { connect } from '@parlance/client';
import { createServer, type ServerOptions } from '@parlance/server';
import { expect, it } from 'vitest';

/** The requests of HTTP/2 of an application's server, as Fastify with `http2: true` has them, and a proxy that speaks it. */

async function serve(options: ServerOptions, origin?: string, authority?: string) {
  const server = createServer(options);
  const http2 = createHttp2Server((request, response) => {
    const [given, answer] = [request, response] as unknown as [IncomingMessage, ServerResponse];
    if (!server.respond(given, answer)) response.writeHead(404).end();
  });
  await once(http2.listen(0, '127.0.0.1'), 'listening');
  const link = connectHttp2(`http://127.0.0.1:${(http2.address() as AddressInfo).port}`);
  const front = createHttpServer((request, response) => {
    const { host = '', 'content-type': type } = request.headers;
    const stream = link.request({
      ':method': request.method,
      ':path': request.url,
      ':authority': authority ?? host,
      'content-type': type,
      origin: origin ?? `http://${host}`,
    });
    stream.on('response', ({ ':status': status = 0 }) => {
      response.writeHead(status);
      response.flushHeaders();
    });
    stream.on('error', () => response.destroy());
    response.on('close', () => stream.close());
    request.pipe(stream).pipe(response);
  });
  await once(front.listen(0, '127.0.0.1'), 'listening');
  const { port } = front.address() as AddressInfo;
  return {
    dial: () => connect(`http://127.0.0.1:${port}`, { transports: ['http'], reconnect: false }),
    async [Symbol.asyncDispose]() {
      await server.close();
      link.close();
      front.close();
      http2.close();
    },
  };
}

it('a session comes over HTTP/2, from pages of its own origin', async () => {
  await using served = await serve({ onRequest: ({ text }) => `${text}!` });
  const session = await served.dial();
  expect((await session.request('hello')).text).toBe('hello!');
  await session.close();
});

it('pages of other origins and names are refused over HTTP/2 as well', async () => {
  await using foreign = await serve({}, 'http://evil.example');
  await expect(foreign.dial()).rejects.toThrow('origin http://evil.example is not admitted');
  await using rebound = await serve({}, 'http://evil.example', 'evil.example');
  await expect(rebound.dial()).rejects.toThrow('HTTP 403');
});
