import { connect, type Session } from '@parlance/client';
import { cluster, createServer, type Engine, type Server } from '@parlance/server';
import WebSocket from 'ws';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';

/** Two servers of this process as the nodes of one cluster, and a session whose connection may be at either. */

export interface PairNode {
  readonly server: Server;
  readonly port: number;
  /** Events of its log, in order. */
  readonly events: readonly string[];
}

export interface Pair extends AsyncDisposable {
  readonly nodes: readonly [PairNode, PairNode];
  readonly front: CuttingProxy;
  /** A session of the first node whose connection is at the second one. */
  lead(): Promise<Session>;
  /** Breaks its connection; the next one arrives at the other node. */
  swap(session: Session): Promise<void>;
  /** Breaks its connection; the next one goes where the front leads. */
  reconnect(session: Session): Promise<void>;
  /** How often all nodes together have logged an event. */
  count(event: string): number;
}

const SECRET = 'a secret of the cluster in tests';

/** One node, which echoes; its port is 0 if it could not listen. */
export async function startNode(engine: Engine): Promise<PairNode> {
  const events: string[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => events.push(String(fields['event']));
  const server = createServer({
    engine,
    features: [cluster({ secret: SECRET })],
    logger: { debug: log, info: log, warn: log, error: log },
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    async onSession(session) {
      for await (const { text } of session) await session.send(text);
    },
    onRequest: ({ text }) => ({ text }),
  });
  try {
    const { port } = await server.listen();
    return { server, port, events };
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** @param engine called for each node. */
export async function startPair(engine: () => Engine): Promise<Pair> {
  const nodes = [await startNode(engine()), await startNode(engine())] as const;
  const until = async (event: string) => {
    while (!nodes.every(({ events }) => events.includes(event))) await pause();
  };
  await until('node.member');
  await until('node.joined');
  let at = 0;
  const front = await createCuttingProxy(() => nodes[at]?.port ?? 0);
  const sessions: Session[] = [];
  const reconnect = async (session: Session) => {
    const { id } = session;
    const resumed = new Promise<void>((resolve) => {
      const off = session.on('state', (state) => {
        if (state !== 'established') return;
        off();
        resolve();
      });
    });
    front.cut();
    await resumed;
    if (session.id !== id) throw new Error('the session was lost');
  };
  const swap = async (session: Session) => {
    at = 1 - at;
    await reconnect(session);
  };
  return {
    nodes,
    front,
    swap,
    reconnect,
    async lead() {
      at = 0;
      const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
        WebSocket,
        token: 'ann',
        reconnect: { minDelayMs: 5, maxDelayMs: 50 },
      });
      sessions.push(session);
      await swap(session);
      return session;
    },
    count: (event) =>
      nodes.reduce((sum, { events }) => sum + events.filter((each) => each === event).length, 0),
    async [Symbol.asyncDispose]() {
      await Promise.all(sessions.map((session) => session.close()));
      await front[Symbol.asyncDispose]();
      await Promise.all(nodes.map(({ server }) => server.close()));
    },
  };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20));
}
