import { createServer, type Server } from '@parlance/server';
import { answer, count } from './behaviours.js';

/** Parlance's server as a peer under test. */

/** A machine under test is not a crowd of strangers. */
const UNLIMITED = {
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
};

export async function serve(port = 0): Promise<{ server: Server; url: string }> {
  const server = createServer({
    onSession: (session) => count(session).catch(() => {}),
    onRequest: answer,
    onError: () => {},
    limits: UNLIMITED,
  });
  const { url } = await server.listen({ port, host: '127.0.0.1' });
  return { server, url };
}
