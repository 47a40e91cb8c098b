import { createServer } from '@parlance/server';

/** Answers each request with its own text, in the same codec. */

const server = createServer({
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  onRequest: (request) => request.text,
  onSession: async (session) => {
    for await (const message of session) {
      if (message.algorithm !== 'AVP') await session.send(message.text, { algorithm: message.algorithm });
    }
  },
});
const { url } = await server.listen();
process.send?.(url);
