import { createServer } from '@parlance/server';
import { answering, count } from '../../../conformance/peers/parlance/behaviours.js';

/** A server without records, which answers the tests of the kit. It prints its URL. */

const server = createServer({
  authenticate: ({ token = 'nobody', agentId }) => ({
    principal: token,
    ...(agentId !== undefined && { agentId }),
  }),
  onSession: (session) => count(session).catch(() => {}),
  onRequest: answering({}),
  onError: () => {},
  limits: {
    messagesPerMinute: Infinity,
    bytesPerSecond: Infinity,
    connectionsPerMinutePerIp: Infinity,
    sessionsPerMinutePerIp: Infinity,
    sessionsPerIp: Infinity,
  },
});
console.log((await server.listen({ port: 0, host: '127.0.0.1' })).url);
