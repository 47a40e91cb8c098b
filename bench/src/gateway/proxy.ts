import { Agent, createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { offer } from '../../../scripts/child-process.js';

/** A reverse proxy that does nothing but pass on, in a process of its own: the least that a second hop costs. */

const [baseUrl] = process.argv.slice(2) as [string];
const { hostname, port, pathname } = new URL(baseUrl);
const agent = new Agent({ keepAlive: true });

const server = createServer((incoming, outgoing) => {
  const { method, url = '/', headers } = incoming;
  const request = httpRequest({ hostname, port, method, path: `${pathname}${url}`, headers, agent });
  request.on('error', () => outgoing.destroy());
  request.on('response', (response) => {
    outgoing.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(outgoing);
  });
  incoming.pipe(request);
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

const commands = { url: () => `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
export type ProxyCommands = typeof commands;

offer(commands);
