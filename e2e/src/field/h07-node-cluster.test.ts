import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers } from '../kit/peers.js';
import { programOf } from '../kit/programs.js';

/** Workers of `node:cluster`, as PM2 starts them: they share every port that they open, unless it is exclusive. */

/** Its port for other nodes is its own, so it tells the primary of one port only. */
async function portOf(worker: Worker): Promise<number> {
  const [{ port }] = await once(worker, 'listening');
  return port;
}

it.skipIf(redisMissing !== undefined)('a session resumes at any worker that its client reaches', async () => {
  await using redis = await startRedis();
  const { file, flags } = programOf('cluster/node');
  const setup = { url: redis.url, peerPort: 0, secret: 'a secret of enough bytes' };
  cluster.setupPrimary({
    exec: fileURLToPath(file),
    args: [JSON.stringify(setup)],
    execArgv: [...process.execArgv, ...flags],
  });
  const workers = [cluster.fork(), cluster.fork()];
  try {
    const [port = 0, other] = await Promise.all(workers.map(portOf));
    expect(other).toBe(port);
    await using front = await createCuttingProxy(port);
    await using peers = createPeers();
    const sessions = await Promise.all(
      Array.from({ length: 4 }, () =>
        peers.dial(`ws://127.0.0.1:${front.port}`, {
          token: 'user-1',
          reconnect: { minDelayMs: 5, maxDelayMs: 50 },
        }),
      ),
    );
    const ids = sessions.map(({ id }) => id);
    for (let cuts = 0; cuts < 5; cuts++) {
      front.cut();
      await Promise.all(sessions.map((session) => session.request('x')));
    }
    expect(sessions.map(({ id }) => id)).toEqual(ids);
  } finally {
    for (const worker of workers) worker.process.kill('SIGKILL');
  }
});
