import { type ClientOptions, connect, type Message, type Session } from '@parlance/client';
import { createServer, type Server, type ServerOptions } from '@parlance/server';
import WebSocket from 'ws';

/** A server whose clients state their identity in the token: `principal/agent`. */
export interface AgentsBench extends AsyncDisposable {
  readonly server: Server;
  readonly port: number;
  /** Connects as an agent of `acme`, or as `principal/agent`. @param port of a proxy in between. */
  agent(name: string, options?: ClientOptions, port?: number): Promise<Session>;
}

export async function serveAgents(options: ServerOptions = {}): Promise<AgentsBench> {
  const server = createServer({
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    ...options,
    authenticate: ({ token = '' }) => {
      const [principal = '', agentId] = token.split('/');
      return principal === '' ? null : { principal, ...(agentId ? { agentId } : {}) };
    },
  });
  const { port } = await server.listen();
  const sessions: Session[] = [];
  return {
    server,
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
      await server.close();
    },
  };
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
