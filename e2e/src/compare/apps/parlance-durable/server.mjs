import { createServer, durable } from '@parlance/server';
import { sqlite } from '@parlance/server/sqlite';
import { answer } from '../model.mjs';

const server = createServer({
  engine: sqlite(process.env.DATABASE),
  features: [durable()],
  authenticate: ({ token }) => (token ? { principal: token } : null),
  async *onRequest({ text }, { keep, metadata, ifProcessDies, signal, yielded }) {
    keep({ name: metadata.chat });
    ifProcessDies('again');
    yield* answer(text, { signal, after: yielded.length });
  },
});
await server.listen({ port: Number(process.env.PORT) });
