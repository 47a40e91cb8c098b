import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { connect, type Session } from '@parlance/client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createProse } from '../../../packages/protocol/src/testing/prose.js';
import { RENEW_MS } from '../../../packages/server/src/cluster/membership.js';
import { BLOCK_MS } from '../../../packages/server/src/engine/redis/table.js';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { run, type Serving, startServing } from '../kit/cli-process.js';
import { failure } from '../kit/peers.js';
import { type Nodes, startNodes } from './nodes.js';

/** Sessions whose connections arrive at any of several nodes, in processes of their own, with Redis. */

const MESSAGES = 600;
const TURNS = 20;
const STREAMS = 6;
const PARTS = 150;
const TENSORS = 8;

let nodes: Nodes;
const sessions: Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
});

async function dial(): Promise<Session> {
  const session = await connect(nodes.url, {
    WebSocket,
    waitForServer: true,
    token: 'user-1',
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  });
  sessions.push(session);
  return session;
}

async function dialAt(owner: number): Promise<Session> {
  nodes.choose(owner);
  return await dial();
}

/** A session of one node whose connection is at another one. */
async function dialLed(owner: number, landing: number): Promise<Session> {
  const session = await dialAt(owner);
  await move(session, landing);
  expect(await nodes.ownerOf(session.id)).toBe(owner);
  return session;
}

/** The session's next connection goes to one node. */
async function move(session: Session, landing: number): Promise<void> {
  const before = session.id;
  nodes.choose(landing);
  const resumed = nextState(session, 'established');
  nodes.front.cut();
  await resumed;
  expect(session.id).toBe(before);
}

function nextState(session: Session, state: string): Promise<void> {
  return new Promise((resolve) => {
    session.on('state', (now) => {
      if (now === state) resolve();
    });
  });
}

const eventsOf = async (index: number) => (await nodes.nodes[index]?.process.call('events')) ?? {};
const countAt = async (index: number, event: string) => (await eventsOf(index))[event] ?? 0;
const countOf = async (event: string) => {
  let count = 0;
  for (const index of nodes.nodes.keys())
    if (nodes.nodes[index]?.process.end === undefined) count += (await eventsOf(index))[event] ?? 0;
  return count;
};

const inOrder = (length: number) => Array.from({ length }, (_, i) => i);

/** Everything that a session carries, at once. @returns what arrived, to be compared with what has to. */
async function traffic(session: Session) {
  const numbers: number[] = [];
  const tensors: string[] = [];
  const reading = (async () => {
    for await (const message of session) {
      if (message.tensor?.data === undefined) numbers.push(Number(message.text));
      else tensors.push(hash(message.tensor.data as Uint8Array));
      if (numbers.length === MESSAGES && tensors.length === TENSORS) return;
    }
  })();
  const data = Array.from({ length: TENSORS }, (_, i) => new Uint8Array(200_000).fill(i + 1));
  const sending = (async () => {
    for (let i = 0; i < MESSAGES; i++) {
      await session.send(String(i));
      if (i % 10 === 0) await pause(5);
    }
  })();
  const sendingTensors = (async () => {
    for (const each of data) {
      await session.sendTensor({
        data: each,
        shape: [each.length],
        dtype: 'int8',
        payloadType: 'hidden_state',
      });
      await pause(30);
    }
  })();
  const prose = createProse(1);
  const conversation = Array.from({ length: TURNS }, () => prose(200));
  const chatting = (async () => {
    const answers: string[] = [];
    for (let turns = 1; turns <= TURNS; turns++) {
      const text = requestOf(conversation.slice(0, turns));
      answers.push((await session.request(text)).text);
      await pause(15);
    }
    return answers;
  })();
  const streaming = Promise.all(
    Array.from({ length: STREAMS }, async (_, n) => {
      let text = '';
      const metadata = { parts: String(PARTS), pauseMs: '4' };
      for await (const part of session.stream(`stream ${n}`, { metadata })) text += part.text;
      return text;
    }),
  );
  const [answers, streams] = await Promise.all([chatting, streaming, sending, sendingTensors, reading]);
  return {
    got: { numbers, tensors, answers, streams },
    due: {
      numbers: inOrder(MESSAGES),
      tensors: data.map(hash),
      answers: conversation.map((_, i) => answerTo(requestOf(conversation.slice(0, i + 1)), 1)),
      streams: inOrder(STREAMS).map((n) => answerTo(`stream ${n}`, PARTS)),
    },
  };
}
const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const requestOf = (turns: readonly string[]) =>
  JSON.stringify({ model: 'gpt-4o', messages: turns.map((content) => ({ role: 'user', content })) });
/** The answer of the nodes. */
const answerTo = (text: string, parts: number) =>
  inOrder(parts)
    .map((i) => `${i}:${text.length}:${text.slice(-8)} `)
    .join('');

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'three nodes', () => {
  beforeAll(async () => {
    nodes = await startNodes(3);
  });
  afterAll(async () => {
    await nodes[Symbol.asyncDispose]();
  });

  it('know each other', async () => {
    await expect.poll(() => countOf('node.joined')).toBe(6);
  });

  it('lose, double and reorder nothing while every leg is cut and everything is under way', async () => {
    nodes.choose(0, 1, 2);
    const session = await dial();
    const { id } = session;
    const owner = await nodes.ownerOf(id);
    const ledBefore = await countOf('session.led');
    const done = traffic(session);
    let isDone = false;
    const outcome = done.finally(() => {
      isDone = true;
    });
    for (let i = 0; !isDone && i < 200; i++) {
      await pause(40);
      const proxy = i % 2 === 0 ? nodes.front : nodes.nodes[owner]?.peers;
      if (i % 5 === 4) proxy?.cutAfter(7);
      else proxy?.cut();
    }
    const { got, due } = await outcome;
    expect(got).toEqual(due);
    expect(session.id).toBe(id);
    expect(await nodes.nodes[owner]?.process.call('heard', id)).toEqual(inOrder(MESSAGES));
    expect(await countOf('session.led')).toBeGreaterThan(ledBefore);
    expect(session.stats().sent.byAlgorithm.CONTEXT?.messages).toBeGreaterThan(0);
  });

  it('authenticate a client once, at the node where it arrives', async () => {
    const at = async (index: number) => (await nodes.nodes[index]?.process.call('authenticated')) ?? 0;
    const session = await dialAt(0);
    const [owner, landing] = [await at(0), await at(1)];
    await move(session, 1);
    expect([await at(0), await at(1)]).toEqual([owner, landing + 1]);
  });

  it('ask the engine for nothing while messages are proxied', async () => {
    const session = await dialLed(0, 1);
    const { client } = nodes.redis;
    await client.config('RESETSTAT');
    const startedAt = performance.now();
    const messages = 2_000;
    const reading = (async () => {
      let count = 0;
      for await (const _message of session) if (++count === messages) return;
    })();
    for (let i = 0; i < messages; i++) await session.send(String(i));
    await reading;
    const calls = callsIn(await client.info('commandstats'));
    // Nodes ask by the clock: as many times as time allows, and a few times more for changes that tests before have left.
    const passedMs = performance.now() - startedAt;
    const alive = nodes.nodes.filter(({ process }) => process.end === undefined).length;
    const times = (everyMs: number) => alive * (Math.floor(passedMs / everyMs) + 4);
    const renewals = times(RENEW_MS);
    // In two tables: of agents, and of which nodes have members of a group.
    const looks = 2 * times(BLOCK_MS);
    const allowed = new Map([
      // A node renews its lease in one script ...
      ...['time', 'hset', 'hgetall', 'pexpire'].map((name) => [name, renewals] as const),
      // ... waits for changes of agents, and then looks whether the engine has forgotten them, in another script.
      ['xread', looks],
      ['hget', looks],
      ['evalsha', renewals + looks],
      // This test.
      ['info', 1],
      ['config|resetstat', 1],
    ]);
    const excess = [...calls].filter(([name, count]) => count > (allowed.get(name) ?? 0));
    expect(excess).toEqual([]);
    // However slow the machine is, messages are far more than what the clock allows.
    expect(renewals + looks).toBeLessThan(messages / 2);
  });

  it('bound the memory of what a client does not read, at both nodes', async () => {
    const session = await dialLed(0, 1);
    const memory = async () =>
      await Promise.all([0, 1].map(async (index) => (await nodes.nodes[index]?.process.call('memory')) ?? 0));
    const before = await memory();
    const metadata = { parts: '4000', size: '8000' };
    const streams = inOrder(8).map((n) => session.stream(`big ${n}`, { metadata }));
    const [first] = streams.map((stream) => stream[Symbol.asyncIterator]());
    await first?.next();
    // From here on nothing is read from the socket, while the handlers would write 256 MB.
    nodes.front.freeze();
    let produced = -1;
    for (;;) {
      await pause(200);
      const now = (await nodes.nodes[0]?.process.call('produced')) ?? 0;
      if (now === produced) break;
      produced = now;
    }
    const after = await memory();
    for (const [index, bytes] of after.entries()) expect(bytes - (before[index] ?? 0)).toBeLessThan(48e6);
    // The client comes back, and gets all of it.
    nodes.choose(2);
    nodes.front.cut();
    await Promise.all(streams.map((stream) => stream.cancel()));
    expect((await session.request('alive')).text).toBe(answerTo('alive', 1));
  });

  it('keep clients waiting while the owner of their session is paused', async () => {
    const session = await dialLed(0, 1);
    const owner = nodes.nodes[0]?.process.pid as number;
    const silentBefore = await countAt(2, 'peer.silent');
    process.kill(owner, 'SIGSTOP');
    try {
      nodes.choose(2);
      nodes.front.cut();
      await expect.poll(() => countAt(2, 'peer.silent')).toBe(silentBefore + 1);
      expect(session.state).toBe('suspended');
    } finally {
      process.kill(owner, 'SIGCONT');
    }
    const { id } = session;
    expect((await session.request('awake')).text).toBe(answerTo('awake', 1));
    expect(session.id).toBe(id);
  });

  it('lead on while the engine is gone, and after it has come back empty', async () => {
    const session = await dialLed(0, 1);
    const stalled = await countOf('engine.stalled');
    await nodes.redis.kill();
    await expect.poll(() => countOf('engine.stalled')).toBe(stalled + 3);
    await move(session, 2);
    expect((await session.request('without')).text).toBe(answerTo('without', 1));
    const back = await countOf('engine.back');
    const left = await countOf('node.left');
    await nodes.redis.restart();
    await expect.poll(() => countOf('engine.back')).toBe(back + 3);
    await move(session, 1);
    expect((await session.request('with')).text).toBe(answerTo('with', 1));
    expect(await countOf('node.left')).toBe(left);
  });

  it('let clients come back elsewhere when the node where they arrived drains', async () => {
    const extra = await nodes.add();
    const index = nodes.nodes.indexOf(extra);
    const session = await dialLed(0, index);
    const { id } = session;
    nodes.choose(1, 2);
    const resumed = nextState(session, 'established');
    await extra.process.call('drain', 10_000);
    await resumed;
    expect(session.id).toBe(id);
    expect((await session.request('moved')).text).toBe(answerTo('moved', 1));
    await extra.process.kill();
  });

  it('lose nothing when the node where the client arrived is killed', async () => {
    const extra = await nodes.add();
    const session = await dialLed(0, nodes.nodes.indexOf(extra));
    const { id } = session;
    const done = traffic(session);
    await pause(100);
    nodes.choose(1, 2);
    await extra.process.kill();
    const { got, due } = await done;
    expect(got).toEqual(due);
    expect(session.id).toBe(id);
  });

  it('tell a client at once that its session is lost when the owner is killed', async () => {
    const extra = await nodes.add();
    const index = nodes.nodes.indexOf(extra);
    const session = await dialLed(index, 1);
    const { id } = session;
    const resets: unknown[] = [];
    session.on('reset', (event) => resets.push(event));
    const metadata = { parts: '100000', pauseMs: '5' };
    const stream = session.stream('under way', { metadata })[Symbol.asyncIterator]();
    await stream.next();
    const lost = failure(
      (async () => {
        for (;;) await stream.next();
      })(),
    );
    await extra.process.kill();
    expect(await lost).toMatchObject({ code: 'session_lost' });
    await expect.poll(() => session.state).toBe('established');
    expect(session.id).not.toBe(id);
    expect(resets).toHaveLength(1);
    expect((await session.request('new')).text).toBe(answerTo('new', 1));
    await expect.poll(() => countAt(1, 'node.left')).toBeGreaterThan(0);
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'parlance serve', () => {
  it('joins a cluster with the secret of the environment, and leaves it after SIGTERM', async () => {
    await using redis = await startRedis();
    const env = { PARLANCE_CLUSTER_SECRET: 'the first of two secrets,and the second one' };
    const flags = ['--cluster', redis.url, '--peer-port', '0', '--metrics-port', '0'];
    const first = await startServing(flags, env);
    const second = await startServing(flags, env);
    const nodesNow = async () =>
      /^parlance_cluster_nodes (\d+)$/m.exec(await (await fetch(pageOf(first, '/metrics'))).text())?.[1];
    try {
      await expect.poll(nodesNow).toBe('2');
      expect((await fetch(pageOf(first, '/readyz'))).status).toBe(200);
      expect(first.log() + second.log()).not.toContain('secrets');
      expect(await second.stop()).toBe(0);
      expect(await redis.client.hlen('parlance:nodes')).toBe(2);
      await expect.poll(nodesNow).toBe('1');
    } finally {
      await first.stop();
    }
    expect(await redis.client.hlen('parlance:nodes')).toBe(0);
  });

  it('is not ready while its Redis is gone, and is refused by one that evicts keys', async () => {
    await using redis = await startRedis('--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru');
    const env = { PARLANCE_CLUSTER_SECRET: 'a secret of 20 bytes' };
    const refused = await run(['serve', '--port', '0', '--cluster', redis.url], { env });
    expect(refused.code).toBe(1);
    expect(refused.stderr.replaceAll(/\s+/g, ' ')).toContain('set maxmemory-policy to noeviction');
    await redis.kill();
    const waiting = await startServing(['--cluster', redis.url, '--metrics-port', '0'], env);
    try {
      const page = await fetch(pageOf(waiting, '/readyz'));
      expect([page.status, await page.text()]).toEqual([503, `not ready: ${JOINING}\n`]);
      await redis.restart();
      // It evicts keys now as before, so this node never joins.
      await expect.poll(() => waiting.log()).toContain('engine.stalled');
      expect((await fetch(pageOf(waiting, '/readyz'))).status).toBe(503);
    } finally {
      await waiting.stop();
    }
  });
});

const JOINING = 'the server has not joined its cluster yet';

/** A page on the port of the metrics. */
function pageOf({ log }: Serving, path: string): string {
  const port = /"event":"metrics.listening","host":"127.0.0.1","port":(\d+)/.exec(log())?.[1];
  return `http://127.0.0.1:${port}${path}`;
}

/** Calls of each command, from `INFO commandstats`. */
function callsIn(info: string): ReadonlyMap<string, number> {
  const found = info.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm);
  return new Map([...found].map(([, name = '', calls]) => [name, Number(calls)]));
}
