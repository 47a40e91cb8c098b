import { setTimeout as pause } from 'node:timers/promises';
import type { ClientSession, Session } from '@parlance/client';
import { cluster, memoryCluster, type ServerOptions } from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers } from '../kit/peers.js';

/** Sessions that follow kept replies, of their own node and of others, while they go from node to node. */

const PARTS = 240;
/** Parts after which a reply waits for its test. */
const PAUSE_AT = 200;
const SESSIONS = 6;

let peers = createPeers();
let engine = memoryCluster();
let go = () => {};
let gate = Promise.resolve();
beforeEach(() => {
  engine = memoryCluster();
  gate = new Promise((resolve) => {
    go = resolve;
  });
});
afterEach(async () => {
  go();
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

const textOf = (name: string, part: number) => `${name}, part ${part}: é😀 ${'🎉'.repeat(part % 3)}`;
const wholeOf = (name: string) => Array.from({ length: PARTS }, (_, part) => textOf(name, part));

const answers: ServerOptions = {
  authenticate: () => ({ principal: 'ali' }),
  async *onRequest(request, { keep, setMetadata }) {
    keep({ name: request.text });
    setMetadata({ about: request.text });
    for (let part = 0; part < PARTS; part++) {
      if (part === PAUSE_AT) await gate;
      if (part % 8 === 0) await pause(Math.random() * 8);
      yield textOf(request.text, part);
    }
  },
};

/** Reads a reply from a part on. */
async function read(session: ClientSession, name: string, after: number): Promise<string[]> {
  const faults: string[] = [];
  const expected = wholeOf(name).slice(after);
  let next = 0;
  const reply = session.follow(name, { after });
  for await (const { text } of reply) {
    if (reply.metadata?.['about'] !== name) faults.push(`metadata ${JSON.stringify(reply.metadata)}`);
    if (text !== expected[next]) faults.push(`${name} after ${after}: ${text}, and not ${expected[next]}`);
    next++;
    if (next % 50 === 0) await pause(Math.random() * 30);
  }
  if (next !== expected.length) faults.push(`${name} after ${after}: ${next} parts of ${expected.length}`);
  return faults;
}

describe('a session that follows a kept reply', () => {
  it.each([
    ['of another node', 3],
    ['of its own node', 0],
  ])('moves between two parts, and misses and doubles none: %s', async (_whose, writer) => {
    let joined = 0;
    const log = ({ event }: { readonly event?: string }) => void (event === 'node.joined' && joined++);
    const logger = { debug: log, info: log, warn: log, error: log };
    const servers = await Promise.all(
      Array.from({ length: 4 }, () => peers.serve({ engine, features: [cluster()], logger, ...answers })),
    );
    await expect.poll(() => joined).toBe(4 * 3);
    let to = 0;
    const way = peers.use(
      await createCuttingProxy(() => servers[writer === 0 ? to : writer]?.port as number),
    );
    const asking = await peers.dial(`ws://127.0.0.1:${way.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const names = ['one', 'two'];
    for (const name of names) void asking.request(name).catch(() => {});
    await expect.poll(async () => (await asking.replies()).length).toBe(2);

    const proxy = peers.use(await createCuttingProxy(() => servers[to]?.port as number));
    const options = { reconnect: { minDelayMs: 1, maxDelayMs: 20 } };
    const sessions: Session[] = [];
    for (let i = 0; i < SESSIONS; i++)
      sessions.push(await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, options));
    const ids = sessions.map(({ id }) => id);
    const readings = sessions.flatMap((session) =>
      names.map((name) => read(session as ClientSession, name, Math.floor(Math.random() * 60))),
    );
    // One without a connection goes to any of the other nodes.
    const areAway = (...from: readonly number[]) =>
      ids.every((id) => servers.some(({ server }, at) => !from.includes(at) && server.sessions.has(id)));
    await pause(20 + Math.random() * 60);
    to = 1;
    const first = servers[0]?.server.drain({ timeoutMs: 30_000, returnWithinMs: 50 });
    // Although the replies are not over.
    await expect.poll(() => areAway(0)).toBe(true);
    await pause(Math.random() * 60);
    to = 2;
    const second = servers[1]?.server.drain({ timeoutMs: 30_000, returnWithinMs: 50 });
    await expect.poll(() => areAway(0, 1)).toBe(true);
    go();
    expect((await Promise.all(readings)).flat()).toEqual([]);
    expect(await second).toMatchObject({ lost: 0, interrupted: 0 });
    expect(await first).toMatchObject({ lost: 0, interrupted: 0 });
    expect(sessions.map(({ id }) => id)).toEqual(ids);
  });
});
