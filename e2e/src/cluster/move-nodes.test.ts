import { setTimeout as pause } from 'node:timers/promises';
import { connect, type Session } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { RENEW_MS } from '../../../packages/server/src/cluster/membership.js';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Nodes, startNodes } from './nodes.js';
import { type Usage, useSession } from './usage.js';

/** Nodes in processes of their own, with Redis, that drain and die while sessions move. */

const SESSIONS = 16;
const NODES = 3;

let nodes: Nodes;
const sessions: Session[] = [];
beforeEach(async () => {
  if (redisMissing === undefined) nodes = await startNodes(NODES);
});
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
  if (redisMissing === undefined) await nodes[Symbol.asyncDispose]();
});

async function dial(): Promise<Session> {
  const session = await connect(nodes.url, {
    WebSocket,
    waitForServer: true,
    token: 'user-1',
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    timers: { closingTimeoutMs: 500 },
  });
  sessions.push(session);
  return session;
}

/** Sessions of the first node, which are in use until the function that is returned is called. */
async function begin(): Promise<() => Promise<readonly Usage[]>> {
  nodes.choose(0);
  const all = await Promise.all(Array.from({ length: SESSIONS }, dial));
  let isOver = false;
  const used = all.map((session) => useSession(session, () => isOver));
  await pause(200);
  nodes.choose(1, 2);
  return async () => {
    isOver = true;
    return await Promise.all(used);
  };
}

const faultsOf = (usages: readonly Usage[]) => usages.flatMap(({ faults }) => faults);

describe.skipIf(redisMissing !== undefined)(`nodes in processes (${redisMissing ?? 'with Redis'})`, () => {
  it('continue the sessions of one that drains, with few commands of the engine', async () => {
    const scripts = async () => {
      const stats = await nodes.redis.client.info('commandstats');
      const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)];
      return calls.reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const end = await begin();
    const since = performance.now();
    const before = await scripts();
    const drained = await nodes.nodes[0]?.process.call('drain', 30_000);
    const used = (await scripts()) - before;
    const renewals = NODES * (Math.ceil((performance.now() - since) / RENEW_MS) + 1);
    expect(drained).toEqual({ ended: 0, interrupted: 0, lost: 0, moved: SESSIONS });
    // A node looks at the engine once before it uses it, and gives it each script once.
    expect(used - renewals - 5 * NODES).toBeLessThanOrEqual(5 * SESSIONS);
    await nodes.nodes[0]?.process.kill();
    await pause(300);
    const usages = await end();
    expect(faultsOf(usages)).toEqual([]);
    expect(usages.filter(({ isLost }) => isLost)).toEqual([]);
    const owners = await Promise.all(usages.map(({ id }) => nodes.ownerOf(id)));
    expect(owners.every((owner) => owner === 1 || owner === 2)).toBe(true);
  });

  it.each([
    ['that drains', 0],
    ['that takes sessions', 1],
  ])('lose no more than what was at the one %s when it is killed', async (_what, victim) => {
    const end = await begin();
    const drained = nodes.nodes[0]?.process.call('drain', 10_000).catch(() => undefined);
    await pause(20 + Math.random() * 150);
    await nodes.nodes[victim]?.process.kill();
    await Promise.race([drained, pause(12_000)]);
    await pause(500);
    const usages = await end();
    expect(faultsOf(usages)).toEqual([]);
    for (const { id, isLost } of usages) {
      const owner = await nodes.ownerOf(id);
      expect({ id, isLost, isSomewhere: owner >= 0 }).toEqual({ id, isLost, isSomewhere: !isLost });
    }
  });
});
