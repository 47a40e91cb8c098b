import { encodeHttpResponse } from '@parlance/protocol';
import { createServer, type Server } from '@parlance/server';

/** The server that the pages talk to. */
export function createEchoServer(): Server {
  return createServer({
    onSession: async (session) => {
      for await (const message of session) await session.send(`you said: ${message.text}`);
    },
    async *onRequest(request, { metadata, setMetadata }) {
      if (metadata['http'] !== undefined)
        setMetadata(encodeHttpResponse({ status: 200, headers: new Map() }));
      yield 'you asked: ';
      yield request.text;
    },
  });
}
