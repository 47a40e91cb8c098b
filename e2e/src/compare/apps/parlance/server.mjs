import { createServer } from '@parlance/server';
import { answer } from '../model.mjs';

const server = createServer({
  authenticate: ({ token }) => (token ? { principal: token } : null),
  async *onRequest({ text }, { keep, metadata, signal }) {
    keep({ name: metadata.chat });
    yield* answer(text, { signal });
  },
});
await server.listen({ port: Number(process.env.PORT) });
