import { connect, type Session } from '@parlance/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { redisMissing } from '../../packages/server/src/backplane/testing/redis-server.js';
import { RENEW_MS } from '../../packages/server/src/cluster/membership.js';
import { type Nodes, startNodes } from './cluster/nodes.js';
import { pause } from './peers.js';

/** Nodes in processes of their own, with Redis, that drain and die while sessions move. */

const SESSIONS = 16;
const NODES = 3;

let nodes: Nodes;
const sessions: Session[] = [];
beforeEach(async () => {
  if (redisMissing === undefined) nodes = await startNodes(NODES);
}, 60_000);
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
  if (redisMissing === undefined) await nodes[Symbol.asyncDispose]();
}, 60_000);

async function dial(): Promise<Session> {
  const session = await connect(nodes.url, {
    WebSocket,
    token: 'user-1',
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    timers: { closingTimeoutMs: 500 },
  });
  sessions.push(session);
  return session;
}

interface Usage {
  readonly id: string;
  readonly faults: readonly string[];
  /** The session was lost with its node, which the client was told. */
  readonly isLost: boolean;
}

/** Says numbers, which come back, and asks for streams, until `isOver` and everything has come back. */
async function useSession(session: Session, isOver: () => boolean): Promise<Usage> {
  const { id } = session;
  const faults: string[] = [];
  let isLost = false;
  session.on('reset', () => {
    isLost = true;
  });
  let [said, heard, asked] = [0, 0, 0];
  const listen = (async () => {
    for await (const { text } of session) {
      if (isLost) return;
      if (text !== String(heard)) faults.push(`heard ${text} and not ${heard}`);
      heard++;
      if (isOver() && heard === said) return;
    }
  })();
  const talk = async () => {
    for (; !isOver() && !isLost; await pause(Math.random() * 10)) await session.send(String(said++));
    if (!isLost) await session.send(String(said++));
  };
  const ask = async () => {
    for (; !isOver() && !isLost; await pause(Math.random() * 30)) {
      const parts = Math.floor(Math.random() * 15);
      const text = `${'a question that is asked again '.repeat(40)}${asked++}`;
      const expected = Array.from({ length: parts }, (_, i) => `${i}:${text.length}:${text.slice(-8)} `).join(
        '',
      );
      let reply = '';
      const metadata = { parts: String(parts), pauseMs: '3' };
      for await (const part of session.stream(text, { metadata })) reply += part.text;
      if (reply !== expected) faults.push(`${reply} and not ${expected}`);
    }
  };
  // A call that fails because its session is lost is not a fault.
  const outcomes = await Promise.allSettled([
    talk(),
    ask(),
    ask(),
    Promise.race([listen, until(() => isLost)]),
  ]);
  for (const outcome of outcomes)
    if (outcome.status === 'rejected' && !isLost) faults.push(String(outcome.reason));
  return { id, faults, isLost };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await pause(10);
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
  it('go on with the sessions of one that drains, with few commands of the engine', async () => {
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
    expect(drained).toEqual({ left: 0, interrupted: 0, lost: 0, moved: SESSIONS });
    // A node looks at the engine once before it uses it, and gives it each script once.
    expect(used - renewals - 5 * NODES).toBeLessThanOrEqual(5 * SESSIONS);
    await nodes.nodes[0]?.process.kill();
    await pause(300);
    const usages = await end();
    expect(faultsOf(usages)).toEqual([]);
    expect(usages.filter(({ isLost }) => isLost)).toEqual([]);
    const owners = await Promise.all(usages.map(({ id }) => nodes.ownerOf(id)));
    expect(owners.every((owner) => owner === 1 || owner === 2)).toBe(true);
  }, 90_000);

  it.each([
    ['that drains', 0],
    ['that takes sessions', 1],
  ])(
    'lose no more than what was at the one %s when it is killed',
    async (_what, victim) => {
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
    },
    90_000,
  );
});
