import { createServer } from '@parlance/server';
import { identify } from './identity.js';
import { settings } from './settings.js';

const { host, port, secret } = settings;
const server = createServer({ authenticate: ({ token = '' }) => identify(token, secret) });
const { url } = await server.listen({ host, port });
console.log(`listening on ${url}`);

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  process.once(signal, async () => {
    await server.drain({ timeoutMs: 10_000 });
    await server.close();
  });
