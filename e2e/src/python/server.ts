import { createServer, type RequestHandler } from '@parlance/server';
import { answering, count } from '../../../conformance/peers/parlance/behaviours.js';

/**
 * The server of the tests of `python/`, without records and rates. It answers the tests of the kit, and any other request word by
 * word, as the examples and the README of the client expect. It prints its URL.
 */

const ofKit = answering({});

async function* words(text: string) {
  for (const word of text.split(/(?<= )/)) yield word;
}

const onRequest: RequestHandler = (request, context) =>
  'test' in context.metadata ? ofKit(request, context) : words(`You have said: ${request.text}`);

const server = createServer({
  authenticate: ({ token = 'nobody', agentId }) => ({
    principal: token,
    ...(agentId !== undefined && { agentId }),
  }),
  onSession: (session) => count(session).catch(() => {}),
  onRequest,
  onFetch: ({ url }) => Response.json({ path: new URL(url).pathname }),
  onError: () => {},
  limits: {
    messagesPerMinute: Infinity,
    bytesPerSecond: Infinity,
    connectionsPerMinutePerIp: Infinity,
    sessionsPerMinutePerIp: Infinity,
    sessionsPerIp: Infinity,
    sessionsPerPrincipal: Infinity,
  },
});
const { url } = await server.listen({ port: 0, host: '127.0.0.1' });
console.log(url);
