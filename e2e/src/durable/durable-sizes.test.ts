import { cluster, durable, sealed } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { createPeers } from '../kit/peers.js';

/** The bytes that durable sessions write to Redis, and the memory that they take there. */

const TURNS = 40;
const PARTS = 50;
/** Arguments before those: the script, its key, how many they are, and who writes. */
const HEAD = 13;
const MAX_WRITTEN = 200_000;
const MAX_IDLE = 1_024;

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

/** A server of which it is counted what it writes: names and values of fields, and names of those that it removes. */
async function serve(server: RedisServer, seal: boolean) {
  const client = server.client.duplicate();
  client.on('error', () => {});
  peers.use({ [Symbol.asyncDispose]: async () => client.disconnect() });
  let written = 0;
  const counted = {
    call: (name: string, ...rest: string[]) => client.call(name, ...rest),
    callBuffer(name: string, ...rest: (string | Buffer)[]) {
      written += rest.slice(HEAD).reduce((sum, each) => sum + Buffer.byteLength(each), 0);
      return client.callBuffer(name, ...rest);
    },
  };
  const plain = redis({ client: counted });
  const { url: own } = await peers.serve({
    engine: seal ? sealed(plain, { key: new Uint8Array(32).fill(5) }) : plain,
    features: [
      cluster({ secret: 'a secret of the cluster in tests' }),
      durable(true, { allowVolatileEngine: true }),
    ],
    async *onRequest({ text }) {
      for (let i = 0; i < PARTS; i++) {
        yield `${text.length % 7} word`;
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  });
  return { url: own, written: () => written };
}

/** Bytes of the record of a session. */
async function recordOf({ client }: RedisServer, id: string): Promise<number> {
  return Number(await client.call('MEMORY', 'USAGE', `parlance:{${id}}`, 'SAMPLES', '0'));
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'durable sessions in Redis', () => {
  it.each([
    ['', false],
    ['sealed, ', true],
  ])(
    `%swrite at most ${MAX_WRITTEN} bytes for a chat of ${TURNS} turns, and take at most ${MAX_IDLE} when idle`,
    async (_, seal) => {
      await using server = await startRedis();
      const { url, written } = await serve(server, seal);
      const session = await peers.dial(url);
      await session.flush();
      const idle = await recordOf(server, session.id);
      let history = '';
      for (let turn = 0; turn < TURNS; turn++) {
        history += `What about number ${turn}? `;
        const reply = await session.request(history);
        history += reply.text;
      }
      await session.flush();
      expect(idle).toBeGreaterThan(0);
      expect(idle).toBeLessThanOrEqual(MAX_IDLE);
      expect(written()).toBeLessThanOrEqual(MAX_WRITTEN);
    },
  );
});
