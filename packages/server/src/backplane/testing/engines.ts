import { Redis } from 'ioredis';
import { createClient } from 'redis';
import type { Backplane } from '../backplane.js';
import { memoryCluster } from '../memory.js';
import { redis } from '../redis.js';
import { startRedis } from './redis-server.js';

export interface Engine {
  /** A cluster without nodes. */
  create(): Backplane;
  close(): PromiseLike<void>;
}

/** Everything that has a backplane. */
export const engines: Readonly<Record<string, () => Promise<Engine>>> = {
  memory: async () => ({ create: () => memoryCluster(), async close() {} }),
  'redis by URL': async () => {
    const server = await startRedis();
    return {
      create: () => redis({ url: server.url, prefix: newPrefix() }),
      close: () => server[Symbol.asyncDispose](),
    };
  },
  'redis by a client of ioredis': async () => {
    const server = await startRedis();
    const client = new Redis(server.url);
    return {
      create: () => redis({ client, prefix: newPrefix() }),
      async close() {
        client.disconnect();
        await server[Symbol.asyncDispose]();
      },
    };
  },
  'redis by a client of node-redis': async () => {
    const server = await startRedis();
    const client = createClient({ url: server.url });
    client.on('error', () => {});
    await client.connect();
    return {
      create: () => redis({ client, prefix: newPrefix() }),
      async close() {
        client.destroy();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
let prefixes = 0;
const newPrefix = () => `test${prefixes++}`;
