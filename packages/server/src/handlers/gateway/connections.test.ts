import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { type Connections, createConnections } from './connections.js';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** An upstream that answers everything with the number of its connection. */
async function serve(): Promise<{ readonly url: URL; readonly sockets: Socket[] }> {
  const sockets: Socket[] = [];
  server = createServer((incoming, response) => void response.end(String(sockets.indexOf(incoming.socket))));
  server.on('connection', (socket) => void sockets.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`), sockets };
}

/** Answers with the number of the connection, or rejects with the error of the request. */
async function ask({ agent }: Connections, url: URL): Promise<string> {
  const asked = request(url, { agent }).end();
  const [response] = await once(asked, 'response');
  let text = '';
  for await (const chunk of response) text += chunk;
  return text;
}

it('opens one connection before there is a request, which takes it', async () => {
  const { url, sockets } = await serve();
  const connections = createConnections(url);
  connections.prepare();
  connections.prepare();
  await expect.poll(() => sockets.length).toBe(1);
  expect(await ask(connections, url)).toBe('0');
  // The one that is kept for the next request is enough.
  connections.prepare();
  expect(await ask(connections, url)).toBe('0');
  expect(sockets).toHaveLength(1);
});

it('takes a connection that is not open yet', async () => {
  const { url, sockets } = await serve();
  const connections = createConnections(url);
  connections.prepare();
  expect(await ask(connections, url)).toBe('0');
  expect(sockets).toHaveLength(1);
});

it('opens another one if the upstream has closed it or sent something', async () => {
  for (const spoil of [
    (socket: Socket) => socket.end(),
    (socket: Socket) => socket.write('HTTP/1.1 408 x\r\n'),
  ]) {
    const { url, sockets } = await serve();
    const connections = createConnections(url);
    connections.prepare();
    await expect.poll(() => sockets.length).toBe(1);
    spoil(sockets[0] as Socket);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await ask(connections, url)).toBe('1');
  }
});

it('reports an upstream that refuses connections to requests only', async () => {
  const { url } = await serve();
  await new Promise((resolve) => server?.close(resolve));
  const connections = createConnections(url);
  connections.prepare();
  await new Promise((resolve) => setTimeout(resolve, 50));
  await expect(ask(connections, url)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});

it('opens at most one connection a second for an upstream that closes them', async () => {
  const { url, sockets } = await serve();
  let now = 0;
  const connections = createConnections(url, () => now);
  for (const [at, opened] of [
    [0, 1],
    [999, 1],
    [1000, 2],
    [1999, 2],
    [2000, 3],
  ] as const) {
    now = at;
    connections.prepare();
    await expect.poll(() => sockets.length).toBe(opened);
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
});
