import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientOptions, connect, type Session, type Undelivered } from '@parlance/client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createProse } from '../../../packages/protocol/src/testing/prose.js';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { failure } from '../kit/peers.js';
import { type Nodes, startNodes } from './nodes.js';

/**
 * Sessions, streams, context, tensors and agents on nodes that are processes of their own, behind a proxy that picks one at
 * random for each connection and cuts them all the time.
 */

describe.skipIf(redisMissing !== undefined).each([2, 3])(`${redisMissing ?? '%i nodes'}`, (count) => {
  let nodes: Nodes;
  beforeAll(async () => {
    nodes = await startNodes(count);
  });
  afterAll(async () => {
    await nodes[Symbol.asyncDispose]();
  });
  const sessions: Session[] = [];
  afterEach(async () => {
    for (const session of sessions.splice(0)) await session.close();
  });

  async function dial(options: ClientOptions = {}): Promise<Session> {
    const session = await connect(nodes.url, {
      WebSocket,
      waitForServer: true,
      token: 'user-1',
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
      limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
      ...options,
    });
    sessions.push(session);
    return session;
  }

  /** Sessions of which each node has some. */
  async function dialAtAll(all: readonly ClientOptions[]): Promise<Session[]> {
    const dialled: Session[] = [];
    for (const [i, options] of all.entries()) {
      nodes.choose(i % count);
      dialled.push(await dial(options));
    }
    nodes.choose(...nodes.nodes.keys());
    return dialled;
  }

  /** Cuts connections at random until `work` is done, and at least a few times. */
  async function inStorm<Result>(work: Promise<Result>): Promise<Result> {
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    done.catch(() => {});
    for (let cuts = 0; !isDone || cuts < 3; cuts++) {
      await pause(30 + Math.random() * 60);
      if (cuts % 4 === 3) nodes.front.cutAfter(1 + Math.floor(Math.random() * 2_000));
      else nodes.front.cut();
    }
    nodes.front.cutAfter(Infinity);
    return await done;
  }

  async function sum(of: (index: number) => Promise<number | undefined>): Promise<number> {
    let total = 0;
    for (const index of nodes.nodes.keys()) total += (await of(index)) ?? 0;
    return total;
  }
  const led = () => sum(async (i) => (await nodes.nodes[i]?.process.call('events'))?.['session.led']);
  const counted = (name: 'aborted' | 'finished') =>
    sum(async (i) => (await nodes.nodes[i]?.process.call('handlers'))?.[name]);

  it('sessions: echo everything in order, keep their ID, and close in order at every node', async () => {
    const ledBefore = await led();
    const all = await dialAtAll(Array.from({ length: 9 }, () => ({})));
    const ids = all.map(({ id }) => id);
    const owners = await Promise.all(ids.map((id) => nodes.ownerOf(id)));
    expect(new Set(owners).size).toBe(count);
    const numbers = Array.from({ length: 150 }, (_, i) => String(i));
    const talk = async (session: Session) => {
      const echoes: string[] = [];
      const reading = (async () => {
        for await (const message of session) if (echoes.push(message.text) === numbers.length) return;
      })();
      for (const number of numbers) {
        await session.send(number);
        await pause(3);
      }
      await session.flush();
      await reading;
      return echoes;
    };
    const echoes = await inStorm(Promise.all(all.map(talk)));
    for (const each of echoes) expect(each).toEqual(numbers);
    expect(all.map(({ id }) => id)).toEqual(ids);
    for (const [i, id] of ids.entries())
      expect(await nodes.nodes[owners[i] as number]?.process.call('heard', id)).toEqual(numbers.map(Number));
    expect(await led()).toBeGreaterThan(ledBefore);
    const closed = await inStorm(Promise.all(all.map((session) => session.close())));
    expect(closed.map(({ unacknowledged }) => unacknowledged)).toEqual(ids.map(() => 0));
    for (const id of ids) await expect.poll(() => nodes.ownerOf(id)).toBe(-1);
  });

  it('sessions: their credentials, metadata and limits are those of the owner, wherever they arrive', async () => {
    expect(await failure(dial({ token: 'stranger' }))).toMatchObject({ code: 'rejected' });
    const session = await dial({ token: 'user-7' });
    for (let i = 0; i < 6; i++) {
      nodes.front.cut();
      const metadata = { scenario: 'describe', tag: `tag ${i}` };
      const answer = await session.request('x'.repeat(i * 1_000), { metadata });
      expect(answer.metadata).toEqual({ length: i * 1_000, tag: `tag ${i}`, principal: 'user-7' });
    }
  });

  it('resume: handlers continue without a connection, and nothing is lost while none can be opened', async () => {
    const session = await dial();
    const metadata = { parts: '100', pauseMs: '5' };
    let text = '';
    let parts = 0;
    for await (const part of session.stream('a question', { metadata })) {
      text += part.text;
      if (++parts !== 10) continue;
      nodes.front.refuse(true);
      nodes.front.cut();
      await session.send('1');
      setTimeout(() => nodes.front.refuse(false), 300);
    }
    expect(text).toBe(answerTo('a question', 100));
    for await (const message of session) {
      expect(message.text).toBe('1');
      break;
    }
  });

  it('resume: a handler that runs to completion does so after its session', async () => {
    const before = await counted('finished');
    const session = await dial();
    for await (const part of session.stream('x', { metadata: { scenario: 'complete' } })) {
      expect(part.text).toBe('begun');
      nodes.front.cut();
      break;
    }
    await session.close();
    const other = await dial();
    const stream = other.stream('x', { metadata: { scenario: 'complete' } })[Symbol.asyncIterator]();
    await stream.next();
    await Promise.all([other.close(), stream.next().catch(() => {})]);
    await expect.poll(() => counted('finished')).toBeGreaterThan(before);
  });

  it('streams: many at once, errors with their data, cancels that reach the handler, requests back', async () => {
    const session = await dial({ onRequest: (request) => `echo of ${request.text}` });
    const aborted = await counted('aborted');
    const whole = Array.from({ length: 8 }, async (_, n) => {
      let text = '';
      const metadata = { parts: '80', pauseMs: '5', size: String(n * 300) };
      for await (const part of session.stream(`stream ${n}`, { metadata })) text += part.text;
      return text;
    });
    const failing = Array.from({ length: 4 }, () =>
      failure(session.request('x', { metadata: { scenario: 'fail' } })),
    );
    const leaving = Array.from({ length: 4 }, async () => {
      const numbers: number[] = [];
      for await (const part of session.stream('x', { metadata: { scenario: 'endless' } }))
        if (numbers.push(Number(part.text)) === 100) break;
      return numbers;
    });
    const asking = session.request('the client', { metadata: { scenario: 'askBack' } });
    const [texts, errors, numbers, asked] = await inStorm(
      Promise.all([Promise.all(whole), Promise.all(failing), Promise.all(leaving), asking]),
    );
    for (const [n, text] of texts.entries()) expect(text).toBe(answerTo(`stream ${n}`, 80, n * 300));
    for (const error of errors)
      expect(error).toMatchObject({ code: 'no_such_model', message: 'not here', data: { tried: 2 } });
    for (const each of numbers) expect(each).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(asked.text).toBe(Array.from({ length: 10 }, (_, i) => `echo of the client ${i};`).join(''));
    await expect.poll(() => counted('aborted')).toBe(aborted + 4);
    await expect.poll(() => session.stats().openStreams).toBe(0);
  });

  it('context: a conversation travels once, over any number of connections', async () => {
    const session = await dial();
    const prose = createProse(7);
    const turns = Array.from({ length: 20 }, () => prose(200));
    const chat = async () => {
      for (let turn = 1; turn <= turns.length; turn++) {
        const text = JSON.stringify(turns.slice(0, turn));
        expect((await session.request(text)).text).toBe(answerTo(text, 1));
        await pause(10);
      }
    };
    await inStorm(chat());
    const { sent } = session.stats();
    expect(sent.byAlgorithm.CONTEXT?.messages).toBeGreaterThan(10);
  });

  it('tensors: arrive whole in both directions, generated ones too', async () => {
    const session = await dial();
    const sizes = [100_000, 700_000, 1_500_001];
    const arrived: string[] = [];
    const reading = (async () => {
      for await (const { tensor } of session)
        if (tensor?.data !== undefined && arrived.push(hashOf(tensor.data)) === 2 * sizes.length) return;
    })();
    const work = async () => {
      for (const size of sizes) {
        const progress: number[] = [];
        const onProgress = (bytes: number) => progress.push(bytes);
        const tensor = { shape: [size], dtype: 'int8', payloadType: 'hidden_state' } as const;
        await session.sendTensor({ ...tensor, data: bytesOf(size) }, { onProgress });
        expect([progress.at(-1), progress]).toEqual([size, progress.toSorted((a, b) => a - b)]);
        await session.sendTensor({ ...tensor, data: slowly(bytesOf(size)) });
      }
      await reading;
    };
    await inStorm(work());
    expect(arrived).toEqual(sizes.flatMap((size) => [hashOf(bytesOf(size)), hashOf(bytesOf(size))]));
  });

  it('agents: messages, requests and streams between all of them, once and in order', async () => {
    const names = ['ada', 'bob', 'cy', 'dan'];
    const agents = await dialAtAll(
      names.map((name) => ({
        token: `user-1/${name}`,
        async *onRequest(request) {
          for (let i = 0; i < 30; i++) {
            yield `${name} ${i} ${request.text},`;
            await pause(3);
          }
        },
      })),
    );
    for (const [i, session] of agents.entries()) {
      const others = async () => (await session.agents()).list.map(({ id }) => id).sort();
      await expect.poll(others).toEqual(names.filter((name) => name !== names[i]));
    }
    const reports: Undelivered[] = [];
    const heard = new Map<string, string[]>();
    const reading = agents.map((session, to) =>
      (async () => {
        session.on('undelivered', (report) => reports.push(report));
        for await (const { from, text } of session) {
          const pair = `${from} ${names[to]}`;
          heard.set(pair, [...(heard.get(pair) ?? []), text]);
        }
      })().catch(() => {}),
    );
    const pairs = names.flatMap((_from, from) =>
      names.flatMap((to) => (to === names[from] ? [] : [{ session: agents[from] as Session, to }])),
    );
    const numbers = Array.from({ length: 60 }, (_, i) => String(i));
    const texts = await inStorm(
      Promise.all(
        pairs.map(async ({ session, to }) => {
          const asked = session.request('asked', { to });
          let streamed = '';
          for (const number of numbers) {
            await session.send(number, { to });
            await pause(5);
          }
          for await (const part of session.stream('streamed', { to })) streamed += part.text;
          return [(await asked).text, streamed];
        }),
      ),
    );
    for (const [i, { to }] of pairs.entries()) {
      const said = (what: string) => Array.from({ length: 30 }, (_, n) => `${to} ${n} ${what},`).join('');
      expect(texts[i]).toEqual([said('asked'), said('streamed')]);
    }
    await expect
      .poll(() => [...heard.values()].map(({ length }) => length))
      .toEqual(pairs.map(() => numbers.length));
    for (const each of heard.values()) expect(each).toEqual(numbers);
    expect(reports).toEqual([]);
    for (const session of agents) await session.close();
    await Promise.all(reading);
  });

  it('moves: a client opens its next connection before it leaves the present one', async () => {
    const session = await dial();
    const owner = await nodes.ownerOf(session.id);
    const states: string[] = [];
    session.on('state', (state) => states.push(state));
    const opened = nodes.front.opened;
    const metadata = { parts: '200', pauseMs: '3' };
    let text = '';
    let moves = 0;
    let parts = 0;
    for await (const part of session.stream('moving', { metadata })) {
      text += part.text;
      if (++parts % 50 !== 25) continue;
      moves++;
      await nodes.nodes[owner]?.process.call('askToMove', session.id);
      await expect.poll(() => states.filter((state) => state === 'established').length).toBe(moves);
    }
    expect(text).toBe(answerTo('moving', 200));
    expect([moves, nodes.front.opened - opened]).toEqual([4, 4]);
  });
});

/** The answer of the nodes. */
const answerTo = (text: string, parts: number, filler = 0) =>
  Array.from({ length: parts }, (_, i) => `${i}:${text.length}:${text.slice(-8)}${'x'.repeat(filler)} `).join(
    '',
  );

const bytesOf = (size: number) => Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >> 8)) & 0xff);
async function* slowly(bytes: Uint8Array) {
  for (let at = 0; at < bytes.length; at += 100_000) {
    yield bytes.subarray(at, at + 100_000);
    await pause(5);
  }
}
const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
