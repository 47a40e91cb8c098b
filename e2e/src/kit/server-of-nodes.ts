import type * as parlance from '@parlance/server';
import type { Engine, Listening, Server, ServerOptions } from '@parlance/server';
import { type Front, openFront } from './front.js';
import { merged } from './server-options.js';

/**
 * Several nodes as one server, so that the tests of one node run against them: every TCP connection goes to the next
 * node, and a session whose connection is lost comes back to another one.
 */

const NODES = 3;

/**
 * `@parlance/server` with a `createServer` that creates several nodes; those of a test's own cluster stay as they are.
 *
 * @param around the engine of each cluster.
 */
export function ofNodes(
  actual: typeof parlance,
  count = NODES,
  around: (engine: Engine) => Engine = (engine) => engine,
): typeof parlance {
  const createServer = <Data>(options: ServerOptions<Data> = {}): Server<Data> => {
    if (options.engine !== undefined) return actual.createServer(options);
    const joined = { engine: around(actual.memoryCluster()), features: [actual.cluster()] };
    const each = merged(options, joined);
    const nodes = Array.from({ length: count }, () => actual.createServer(each));
    return new ServerOfNodes(nodes as [Server<Data>, ...Server<Data>[]]);
  };
  return { ...actual, createServer };
}

class ServerOfNodes<Data> implements Server<Data> {
  readonly #nodes: readonly [Server<Data>, ...Server<Data>[]];
  #front: Front | undefined;

  constructor(nodes: readonly [Server<Data>, ...Server<Data>[]]) {
    this.#nodes = nodes;
  }

  get #first(): Server<Data> {
    return this.#nodes[0];
  }

  get sessions(): Server<Data>['sessions'] {
    return new Map(this.#nodes.flatMap(({ sessions }) => [...sessions]));
  }

  get admin(): Listening | undefined {
    return this.#first.admin;
  }

  /** The sessions of the first node alone: each node has groups of its own. */
  group(name: string): ReturnType<Server<Data>['group']> {
    return this.#first.group(name);
  }

  relayStats(): ReturnType<Server['relayStats']> {
    const stats = { forwarded: 0, recoded: 0, refused: 0, unknown: 0 };
    for (const node of this.#nodes) {
      const own = node.relayStats();
      for (const name of Object.keys(stats) as (keyof typeof stats)[]) stats[name] += own[name];
    }
    return stats;
  }

  async listen({ port = 0, ...options }: Parameters<Server['listen']>[0] = {}): Promise<Listening> {
    const ports: number[] = [];
    for (const node of this.#nodes) ports.push((await node.listen(options)).port);
    this.#front = await openFront(port, ports);
    const { port: opened } = this.#front;
    return { port: opened, host: '127.0.0.1', url: `ws://127.0.0.1:${opened}/session` };
  }

  async drain(options?: Parameters<Server['drain']>[0]): ReturnType<Server['drain']> {
    const results = await Promise.all(this.#nodes.map((node) => node.drain(options)));
    await this.#front?.close();
    const sum = (name: 'ended' | 'interrupted' | 'lost') =>
      results.reduce((total, result) => total + result[name], 0);
    return { ended: sum('ended'), interrupted: sum('interrupted'), lost: sum('lost') };
  }

  async close(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.close()));
    await this.#front?.close();
  }

  attach: Server['attach'] = (server) => this.#first.attach(server);
  respond: Server['respond'] = (request, response) => this.#first.respond(request, response);
  listenMetrics: Server['listenMetrics'] = (options) => this.#first.listenMetrics(options);

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
