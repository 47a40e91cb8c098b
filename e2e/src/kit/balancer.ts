import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A balancer of HTTP, without cookies: each request goes to the next node, whichever connection it comes on. */
export interface Balancer extends AsyncDisposable {
  readonly port: number;
  /** Answers by path and port of the node that has given them, such as `/session/frames 4711`. */
  readonly answered: ReadonlyMap<string, number>;
}

/**
 * @param ports of the nodes; asked for each request. One that refuses a connection is passed over.
 * @param takes whether the balancer keeps an answer from the client.
 */
export async function openBalancer(
  ports: () => readonly number[],
  takes: (request: IncomingMessage, response: IncomingMessage) => boolean = () => false,
): Promise<Balancer> {
  const answered = new Map<string, number>();
  let requests = 0;

  const pass = (near: IncomingMessage, answer: ServerResponse, nodes: readonly number[]): void => {
    const [port, ...others] = nodes;
    const { url: path, method } = near;
    const headers = { ...near.headers, connection: 'close' };
    const far = httpRequest({ host: '127.0.0.1', port, path, method, headers, agent: false });
    far.once('socket', (socket) => socket.once('connect', () => near.pipe(far)));
    far.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' && others.length > 0) pass(near, answer, others);
      else answer.destroy();
    });
    far.on('response', (response) => {
      const key = `${path} ${port}`;
      answered.set(key, (answered.get(key) ?? 0) + 1);
      response.on('error', () => answer.destroy());
      if (takes(near, response)) return;
      const { connection: _, ...head } = response.headers;
      answer.writeHead(response.statusCode ?? 502, head);
      answer.flushHeaders();
      response.pipe(answer);
    });
    answer.on('close', () => far.destroy());
  };

  const server = createServer((near, answer) => {
    near.on('error', () => {});
    const nodes = ports();
    const first = requests++ % nodes.length;
    pass(near, answer, [...nodes.slice(first), ...nodes.slice(0, first)]);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    answered,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
