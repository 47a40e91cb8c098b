import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProtocolError } from '@parlance/client';
import { cluster, durable, type Logger, RequestError, sealed } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type RedisServer,
  redisMissing,
  startRedis,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { createPeers } from '../kit/peers.js';

/** The knowledge and power of those who can read Redis, or write it, over sealed kept replies. */

const SECRET = 'a secret of the cluster in tests';
const [KEY, NEXT] = [3, 4].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string];
const PLANTED = {
  principal: 'ada-lovelace',
  name: 'diagnosis-of-ada',
  share: 'charles-babbage',
  part: 'the engine weaves algebraic patterns',
  failure: 'the cards were torn',
};
const PARTS = 20;
const part = (i: number) => `${PLANTED.part} ${i}. `;

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
  refused.length = 0;
});

const log = (fields: Readonly<Record<string, unknown>>) => {
  if (fields['event'] === 'replies.changed') refused.push(JSON.stringify(fields['err']));
};
const logger: Logger = { debug: log, info: log, warn: log, error: log };
/** Why replies were refused. */
const refused: string[] = [];

async function nodeOf({ url }: RedisServer, seal?: { key: string; otherKeys?: string[] }): Promise<string> {
  const { url: own } = await peers.serve({
    engine: seal === undefined ? redis({ url }) : sealed(redis({ url }), seal),
    features: [cluster({ secret: SECRET })],
    logger,
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    async *onRequest({ text }, { keep }) {
      keep({ name: text, share: { with: PLANTED.share } });
      for (let i = 0; i < PARTS; i++) yield part(i);
      if (text.endsWith('!')) throw new RequestError('torn', PLANTED.failure);
    },
  });
  return own;
}

/** Everything that Redis has, keys and values, as it would be on its disk. */
async function contentOf({ client }: RedisServer): Promise<string> {
  await client.save();
  const [, folder = ''] = (await client.config('GET', 'dir')) as string[];
  return (await readFile(join(folder, 'dump.rdb'))).toString('latin1');
}

/** All that Redis publishes from now on. */
async function listen({ client }: RedisServer): Promise<string[]> {
  const published: string[] = [];
  const listener = client.duplicate();
  peers.use({ [Symbol.asyncDispose]: async () => listener.disconnect() });
  await listener.psubscribe('*');
  listener.on('pmessageBuffer', (_pattern, channel: Buffer, message: Buffer) => {
    published.push(channel.toString('latin1') + message.toString('latin1'));
  });
  return published;
}

const asked = async (url: string, text: string) => {
  const session = await peers.dial(url, { token: PLANTED.principal });
  const reply = session.stream(text);
  const outcome = await readAll(reply);
  return { session, outcome, id: reply.keptId as string };
};

async function readAll(reply: AsyncIterable<{ readonly text: string }>) {
  const texts: string[] = [];
  try {
    for await (const { text } of reply) texts.push(text);
    return { texts, code: undefined };
  } catch (error) {
    return { texts, code: (error as ProtocolError).code };
  }
}

async function nextOf<T>(values: AsyncIterable<T>): Promise<T> {
  for await (const value of values) return value;
  throw new Error('there is none');
}

const WHOLE = { texts: Array.from({ length: PARTS }, (_, i) => part(i)), code: undefined };

/** A key of the one reply that Redis has: `r` its head, `d` its parts. */
async function keyOf({ client }: RedisServer, kind: 'r' | 'd'): Promise<string> {
  const [key = ''] = await client.keys(`*:${kind}:*`);
  return key;
}

const START = ['--rdbcompression', 'no'];

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a sealed cluster', () => {
  it('puts nothing that can be read into Redis, where one that is not sealed does', async () => {
    await using server = await startRedis(...START);
    const published = await listen(server);
    const texts = Object.values(PLANTED);
    const { id } = await asked(await nodeOf(server, { key: KEY }), `${PLANTED.name}!`);
    await expect.poll(() => published.length).toBeGreaterThan(0);
    // The searched content has the reply, under its ID.
    const content = await contentOf(server);
    expect(content).toContain(id);
    for (const text of texts)
      expect([...published, content].filter((each) => each.includes(text))).toEqual([]);
    await server.client.flushall();
    await asked(await nodeOf(server), PLANTED.name);
    const open = await contentOf(server);
    for (const text of [PLANTED.principal, PLANTED.name, PLANTED.share, PLANTED.part])
      expect(open).toContain(text);
  });

  it('puts nothing that can be read of a durable session into Redis', async () => {
    await using server = await startRedis(...START);
    const secret = { state: 'weaves flowers and leaves', message: 'poetical science', token: 'ada-lovelace' };
    const { url } = await peers.serve({
      engine: sealed(redis({ url: server.url }), { key: KEY }),
      features: [cluster({ secret: SECRET }), durable(true, { allowVolatileEngine: true })],
      authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
      async onSession(session) {
        for await (const { text } of session)
          await session.commit({ data: { text }, send: [secret.message] });
      },
      async *onRequest(_request) {
        yield PLANTED.part;
        await new Promise(() => {});
      },
    });
    const session = await peers.dial(url, { token: secret.token });
    await session.send(secret.state);
    const [first] = await Promise.all([nextOf(session), nextOf(session.stream('go'))]);
    expect(first.text).toBe(secret.message);
    const content = await contentOf(server);
    expect(content).toContain(session.id);
    for (const text of [...Object.values(secret), PLANTED.part]) expect(content).not.toContain(text);
  });

  it('gives a reply that was changed in Redis to no reader, and logs why', async () => {
    await using server = await startRedis(...START);
    const { client } = server;
    const [a, b] = [await nodeOf(server, { key: KEY }), await nodeOf(server, { key: KEY })];
    const { id, outcome } = await asked(a, PLANTED.name);
    expect(outcome).toEqual(WHOLE);
    const session = await peers.dial(b, { token: PLANTED.principal });
    expect(await readAll(session.follow(id))).toEqual(WHOLE);
    const [parts, head] = [await keyOf(server, 'd'), await keyOf(server, 'r')];
    const whole = (await client.getBuffer(parts)) as Buffer;
    await client.set(parts, Buffer.from(whole.with(whole.length - 1, whole[whole.length - 1]! ^ 1)));
    const changed = await readAll(session.follow(id));
    expect(changed.code).toBe('internal');
    expect(WHOLE.texts.slice(0, changed.texts.length)).toEqual(changed.texts);
    await client.set(parts, whole);
    expect(await readAll(session.follow(PLANTED.name))).toEqual(WHOLE);
    // Fewer parts, which would be a shorter answer.
    const [length = 0] = whole;
    await client.set(parts, whole.subarray(0, length + 1));
    await client.hset(head, 'n', 1, 's', length + 1);
    expect((await readAll(session.follow(id))).code).toBe('internal');
    expect(refused).toEqual(Array(2).fill(expect.stringContaining('authentication_failed')));
    expect(session.state).toBe('established');
  });

  it('reads with a key that was replaced, and not without', async () => {
    await using server = await startRedis(...START);
    const { id } = await asked(await nodeOf(server, { key: KEY, otherKeys: [NEXT] }), PLANTED.name);
    const { session, id: young } = await asked(
      await nodeOf(server, { key: NEXT, otherKeys: [KEY] }),
      'another',
    );
    expect(await readAll(session.follow(id))).toEqual(WHOLE);
    expect(await readAll(session.follow(PLANTED.name))).toEqual(WHOLE);
    expect((await session.replies()).map((reply) => reply.id)).toEqual([young, id]);
    const without = await peers.dial(await nodeOf(server, { key: NEXT }), { token: PLANTED.principal });
    expect((await readAll(without.follow(id))).code).toBe('internal');
    expect(await readAll(without.follow(young))).toEqual(WHOLE);
  });

  it('lets no principal follow, list or stop what belongs to another one', async () => {
    await using server = await startRedis(...START);
    const url = await nodeOf(server, { key: KEY });
    const { id } = await asked(url, PLANTED.name);
    const other = await peers.dial(url, { token: 'charles' });
    for (const which of [id, PLANTED.name])
      expect((await readAll(other.follow(which))).code).toBe('unknown_reply');
    expect(await other.replies()).toEqual([]);
  });
});
