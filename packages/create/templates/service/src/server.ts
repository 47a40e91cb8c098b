import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer } from '@parlance/server';
import { onRequest } from './handlers.js';

const { HOST = '127.0.0.1', PORT = '8765', TOKEN } = process.env;
if (TOKEN === undefined && HOST !== '127.0.0.1')
  throw new Error('set TOKEN: other machines can reach this server');

const hashed = (text: string) => createHash('sha256').update(text).digest();
const server = createServer({
  // Replace it by your users. Without TOKEN, any program on this machine may connect.
  authenticate: ({ token = '' }) =>
    TOKEN === undefined || timingSafeEqual(hashed(token), hashed(TOKEN)) ? { principal: 'client' } : null,
  onRequest,
});
const { url } = await server.listen({ host: HOST, port: Number(PORT) });
console.log(`listening on ${url}`);

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  process.once(signal, async () => {
    // Answers under way are finished first.
    await server.drain({ timeoutMs: 10_000 });
    await server.close();
  });
