import { cluster, createServer, durable, memoryCluster, type Server } from '@parlance/server';
import { answering, count, forget } from './behaviours.js';

/** Parlance's server as a peer under test. */

/** A machine under test is not a crowd of strangers. */
const UNLIMITED = {
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  sessionsPerPrincipal: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  handshakesPerIp: Infinity,
};

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

export async function serve(port = 0): Promise<Served> {
  const engine = memoryCluster();
  let server: Server;
  let isClosed = false;
  let at = port;
  const begin = async (): Promise<string> => {
    server = createServer({
      authenticate: ({ token = 'nobody', agentId }) => identityOf(token, agentId),
      onSession: (session) => count(session).catch(() => {}),
      onRequest: answering({ drain, restart: () => void again(forgetting), http: true }),
      onError: () => {},
      limits: UNLIMITED,
      engine,
      features: [cluster(), durable(true, { allowVolatileEngine: true })],
    });
    const { url, port: taken } = await server.listen({ port: at, host: '127.0.0.1' });
    at = taken;
    return url;
  };
  /** Closes the server, and starts another one at the same port. */
  const again = async (leave: (server: Server) => Promise<unknown>): Promise<void> => {
    const former = server;
    await leave(former);
    await former.close();
    if (!isClosed) await begin();
  };
  const drain = (timeoutMs: number, returnWithinMs: number) =>
    void again((former) => former.drain({ timeoutMs, returnWithinMs }));
  const url = await begin();
  return {
    url,
    async close() {
      isClosed = true;
      await server.close();
    },
  };
}

const forgetting = async (): Promise<void> => forget();

/** The credentials `NAME` name a principal; those of `NAME:MS` end after MS milliseconds; `wrong` is refused. */
function identityOf(token: string, agentId: string | undefined) {
  const [principal = '', ms] = token.split(':');
  if (principal === 'wrong') return undefined;
  const ends = ms === undefined ? {} : { expiresAt: Date.now() + Number(ms) };
  return { principal, ...ends, ...(agentId !== undefined && { agentId }) };
}
