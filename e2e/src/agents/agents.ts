import { type ClientOptions, connect, type Message, type Session } from '@parlance/client';
import { cluster, createServer, memoryCluster, type Server, type ServerOptions } from '@parlance/server';
import WebSocket from 'ws';
import { openFront } from '../kit/front.js';
import { merged } from '../kit/server-options.js';

/** A server whose clients state their identity in the token: `principal/agent`. */
export interface AgentsBench extends AsyncDisposable {
  /** With several nodes, all of them together. */
  readonly server: Pick<Server, 'sessions' | 'relayStats'>;
  readonly port: number;
  /** Connects as an agent of `acme`, or as `principal/agent`. @param port of a proxy in between. */
  agent(name: string, options?: ClientOptions, port?: number): Promise<Session>;
}

let count = 1;

/** From now on every server is a cluster of so many nodes, each of which gets the next connection in turn. */
export function useNodes(nodes: number): void {
  count = nodes;
}

export async function serveAgents(options: ServerOptions = {}): Promise<AgentsBench> {
  const one = count > 1 ? { engine: memoryCluster(), features: [cluster()] } : {};
  const servers = Array.from({ length: count }, () => createAgentsServer(merged(one, options)));
  const ports: number[] = [];
  for (const server of servers) ports.push((await server.listen()).port);
  const front = count > 1 ? await openFront(0, ports) : undefined;
  const { port } = front ?? { port: ports[0] as number };
  const sessions: Session[] = [];
  return {
    server: togetherOf(servers),
    port,
    async agent(name, clientOptions = {}, at = port) {
      const token = name.includes('/') ? name : `acme/${name}`;
      const session = await connect(`ws://127.0.0.1:${at}/session`, {
        WebSocket,
        token,
        reconnect: { minDelayMs: 5, maxDelayMs: 50 },
        ...clientOptions,
      });
      sessions.push(session);
      return session;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(sessions.map((session) => session.close()));
      await Promise.all(servers.map((server) => server.close()));
      await front?.close();
    },
  };
}

function togetherOf(servers: readonly Server[]): AgentsBench['server'] {
  return {
    get sessions() {
      return new Map(servers.flatMap((server) => [...server.sessions]));
    },
    relayStats() {
      const stats = { forwarded: 0, recoded: 0, refused: 0, unknown: 0 };
      for (const server of servers) {
        const { forwarded, recoded, refused, unknown } = server.relayStats();
        stats.forwarded += forwarded;
        stats.recoded += recoded;
        stats.refused += refused;
        stats.unknown += unknown;
      }
      return stats;
    },
  };
}

function createAgentsServer(options: ServerOptions): Server {
  return createServer({
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    ...options,
    authenticate: ({ token = '' }) => {
      const [principal = '', agentId] = token.split('/');
      return principal === '' ? null : { principal, ...(agentId ? { agentId } : {}) };
    },
  });
}

/** The servers of one test. */
export interface Agents extends AsyncDisposable {
  serve(options?: ServerOptions): Promise<AgentsBench>;
  /** Closed after everything else, like a proxy through which sessions still close. */
  closeLast(resource: AsyncDisposable): void;
}

export function createAgents(): Agents {
  const open: AsyncDisposable[] = [];
  return {
    async serve(options) {
      const bench = await serveAgents(options);
      open.push(bench);
      return bench;
    },
    closeLast: (resource) => void open.unshift(resource),
    async [Symbol.asyncDispose]() {
      for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
    },
  };
}

/** @throws if the session ends without a message. */
export async function nextMessage(session: Session): Promise<Message> {
  for await (const message of session) return message;
  throw new Error('the session ended');
}
