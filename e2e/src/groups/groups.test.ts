import { type ClientSession, connect } from '@parlance/client';
import {
  cluster,
  createServer,
  type GroupsOptions,
  groups,
  memoryCluster,
  type Server,
  type ServerOptions,
  type ServerSession,
} from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { serverEndpoint } from '../kit/endpoints.js';

/** Messages to many sessions at once, over real sockets. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function listen(options: ServerOptions = {}) {
  const server = createServer({ onSession: (session) => void server.group('room').add(session), ...options });
  open.push(server);
  return { server, ...(await server.listen()) };
}

async function enter(url: string, options: Parameters<typeof connect>[1] = {}): Promise<ClientSession> {
  const session = await connect(url, { WebSocket, ...options });
  open.push(session);
  return session;
}

/** Connects clients, one after the other, and waits until the group has them all. */
async function fill(server: Server, url: string, options: readonly Parameters<typeof connect>[1][]) {
  const clients: ClientSession[] = [];
  for (const each of options) clients.push(await enter(url, each));
  await expect.poll(() => server.group('room').size).toBe(options.length);
  return clients;
}

async function read(session: ClientSession, count: number): Promise<string[]> {
  const texts: string[] = [];
  for await (const message of session) if (texts.push(message.text) === count) break;
  return texts;
}

const TEXT = 'the same news for each member of the room, whichever codecs it has agreed on. '.repeat(20);

describe('a message to a group', () => {
  it('may be a Blob, which is read once and no larger than a message', async () => {
    const { server, url } = await listen({ limits: { maxMessageSize: 100 } });
    const [one, two] = await fill(server, url, [{}, {}]);
    const group = server.group('room');
    expect(await group.send(new Blob(['x'.repeat(100)]))).toMatchObject({ queued: 2, coded: 1 });
    await expect(group.send(new Blob(['x'.repeat(101)]))).rejects.toMatchObject({
      code: 'message_too_large',
    });
    for (const each of [one, two]) expect(await read(each as ClientSession, 1)).toEqual(['x'.repeat(100)]);
  });

  it('is coded once for members with the same codecs, and read by all of them', async () => {
    const { server, url } = await listen();
    const codecs = [
      {},
      {},
      {},
      { algorithms: ['NONE' as const] },
      { algorithms: ['BROTLI' as const, 'NONE' as const] },
      { encodings: ['O200K_BASE' as const] },
      { algorithms: ['NONE' as const], subprotocol: 'm2m.v1.json' as const },
      { extensions: { link: false } },
    ];
    const clients = await fill(server, url, codecs);
    let written = 0;
    const body = { toJSON: () => ({ text: TEXT, written: ++written }) };
    const sent = await server.group('room').send(body);
    expect(sent).toEqual({ queued: 8, coded: 4, refused: [] });
    const expected = JSON.stringify({ text: TEXT, written: 1 });
    for (const client of clients) expect(await read(client, 1)).toEqual([expected]);
  });

  it('is coded for each member in context, if that is asked for', async () => {
    const { server, url } = await listen();
    const clients = await fill(server, url, [{}, {}, {}]);
    for (let i = 0; i < 2; i++) {
      const sent = await server.group('room').send(`${i} ${TEXT}`, { algorithm: 'CONTEXT' });
      expect(sent).toEqual({ queued: 3, coded: 3, refused: [] });
    }
    for (const client of clients) {
      expect(await read(client, 2)).toEqual([`0 ${TEXT}`, `1 ${TEXT}`]);
      expect(client.stats().received.byAlgorithm).toMatchObject({ CONTEXT: { messages: 2 } });
    }
  });

  it('keeps its place among the messages to its members, however long it takes to code', async () => {
    const { server, url } = await listen();
    const [client] = await fill(server, url, [{}]);
    const [member] = server.group('room');
    const long = 'A long text takes a while to code. '.repeat(20_000);
    await member?.send('1');
    const sending = server.group('room').send(long);
    void member?.send('3');
    void server.group('room').send('4');
    expect(await sending).toEqual({ queued: 1, coded: 1, refused: [] });
    expect(await read(client as ClientSession, 4)).toEqual(['1', long, '3', '4']);
  });

  it('does not reach the exception, and carries bytes', async () => {
    const { server, url } = await listen();
    const [one, two] = await fill(server, url, [{}, {}]);
    const [except] = [...server.group('room')].filter(({ id }) => id === one?.id);
    const bytes = crypto.getRandomValues(new Uint8Array(1_000));
    expect(await server.group('room').send(bytes, { except })).toMatchObject({ queued: 1 });
    await server.group('room').send('to both');
    for await (const message of two as ClientSession) {
      expect(message.bytes).toEqual(bytes);
      break;
    }
    expect(await read(one as ClientSession, 1)).toEqual(['to both']);
  });

  it('is refused if it cannot be sent, and goes to no one then', async () => {
    const { server, url } = await listen();
    await fill(server, url, [{}]);
    const group = server.group('room');
    await expect(group.send(new Map([[1, 2]]))).rejects.toMatchObject({ code: 'invalid_argument' });
    await expect(group.send('x', { excpet: 1 } as never)).rejects.toMatchObject({ code: 'invalid_option' });
    const { refused, queued } = await group.send('x', { algorithm: 'T1' as never });
    expect([queued, refused.map(({ error }) => error.code)]).toEqual([0, ['unsupported']]);
    expect(await server.group('empty').send('x')).toEqual({ queued: 0, coded: 0, refused: [] });
  });

  it('passes the sealed bytes of one key on to all', async () => {
    const security = { mode: 'AEAD' as const, key: crypto.getRandomValues(new Uint8Array(32)) };
    const { server, url } = await listen({ security });
    const clients = await fill(server, url, [{ security }, { security }]);
    expect(await server.group('room').send('sealed')).toEqual({ queued: 2, coded: 1, refused: [] });
    for (const client of clients) expect(await read(client, 1)).toEqual(['sealed']);
  });
});

describe('a member that reads nothing', () => {
  it('is left out beyond its bound, holds no other member back, and is named', async () => {
    const { server, port, url } = await listen();
    const proxy = await createCuttingProxy(port);
    open.push(proxy);
    const slow = await enter(`ws://127.0.0.1:${proxy.port}/session`, { reconnect: { minDelayMs: 5 } });
    const quick = await enter(url);
    await expect.poll(() => server.group('room').size).toBe(2);
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => server.sessions.get(slow.id)?.state).toBe('suspended');
    const count = 60;
    const reading = read(quick, count);
    const left: string[] = [];
    let refusals = 0;
    for (let i = 0; i < count; i++) {
      const noise = Buffer.from(crypto.getRandomValues(new Uint8Array(12_000))).toString('base64');
      const { refused } = await server.group('room').send(`${i} ${noise}`, { algorithm: 'NONE' });
      for (const { session, error } of refused) {
        left.push(session.id);
        expect(error.code).toBe('over_budget');
        refusals++;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await reading).map((text) => Number.parseInt(text, 10))).toEqual([...Array(count).keys()]);
    expect(new Set(left)).toEqual(new Set([slow.id]));
    const held = serverEndpoint(server.sessions.get(slow.id)).core.heldBytes;
    expect(held).toBeLessThan(256 * 1024 + 20_000);
    expect(held).toBeGreaterThan(256 * 1024 - 20_000);
    // Its queued messages arrive, and it takes part again.
    proxy.refuse(false);
    const texts = await read(slow, count - refusals);
    expect(texts.map((text) => Number.parseInt(text, 10))).toEqual([...Array(count - refusals).keys()]);
    await expect.poll(async () => (await server.group('room').send('again')).refused).toEqual([]);
  });
});

describe('the members of a group', () => {
  it('leave when their session ends, also from other groups, and the group is forgotten', async () => {
    const { server, url } = await listen();
    const [one, two] = await fill(server, url, [{}, {}]);
    const all = server.group('all');
    for (const session of server.sessions.values()) expect(all.add(session)).toBe(true);
    expect([all.size, [...all].map(({ id }) => id).sort()]).toEqual([2, [one?.id, two?.id].sort()]);
    const gone = server.sessions.get(one?.id ?? '') as ServerSession;
    await one?.close();
    await expect.poll(() => [all.size, server.group('room').size]).toEqual([1, 1]);
    expect([all.has(gone), all.add(gone), all.delete(gone), all.size]).toEqual([false, false, false, 1]);
    await two?.close();
    await expect.poll(() => all.size).toBe(0);
  });

  it('are added once, and leave on request', async () => {
    const { server, url } = await listen();
    const [client] = await fill(server, url, [{}]);
    const [session] = server.sessions.values() as Iterable<ServerSession>;
    const group = server.group('room');
    expect(session && [group.add(session), group.size, group.has(session)]).toEqual([true, 1, true]);
    expect(session && [group.delete(session), group.delete(session), group.size]).toEqual([true, false, 0]);
    await group.send('not for it');
    await session?.send('for it');
    expect(await read(client as ClientSession, 1)).toEqual(['for it']);
  });

  it('are sessions of this server, and names have 1 to 256 characters', async () => {
    const [{ server }, other] = [await listen(), await listen()];
    const client = await enter(other.url);
    await expect.poll(() => other.server.sessions.size).toBe(1);
    const [foreign] = other.server.sessions.values() as Iterable<ServerSession>;
    expect(server.group('x').add(foreign as ServerSession)).toBe(false);
    expect(() => server.group('x').add(client as never)).toThrow('a session of a server is expected');
    expect(server.group('n'.repeat(256)).name).toHaveLength(256);
    for (const name of ['', 'n'.repeat(257), 5 as never])
      expect(() => server.group(name)).toThrow(expect.objectContaining({ code: 'invalid_argument' }));
  });

  it('go with a session to another node, without a word of its code', async () => {
    const engine = memoryCluster();
    let added = 0;
    const onSession: ServerOptions['onSession'] = (session) => {
      if (session.isMoved) return;
      added++;
      for (const { server } of [one, two]) server.group('room').add(session);
    };
    const options = { engine, features: [cluster()], onSession };
    const [one, two] = [await listen(options), await listen(options)];
    let { port } = one;
    const proxy = await createCuttingProxy(() => port);
    open.push(proxy);
    const client = await enter(`ws://127.0.0.1:${proxy.port}/session`, { reconnect: { minDelayMs: 1 } });
    await expect.poll(() => one.server.group('room').size).toBe(1);
    const [member] = one.server.group('room');
    port = two.port;
    proxy.cut();
    await expect.poll(() => [member?.state, client.state]).toEqual(['established', 'established']);
    await expect.poll(() => proxy.opened).toBe(2);
    expect(await one.server.drain({ timeoutMs: 10_000 })).toMatchObject({ moved: 1 });
    expect([one.server.group('room').size, one.server.group('room').has(member as ServerSession)]).toEqual([
      0,
      false,
    ]);
    await expect.poll(() => two.server.group('room').size).toBe(1);
    expect(await two.server.group('room').send('moved')).toMatchObject({ queued: 1 });
    expect(await read(client, 1)).toEqual(['moved']);
    expect(added).toBe(1);
  });
});

describe('the bounds of groups', () => {
  async function one(options: GroupsOptions, rest: ServerOptions = {}) {
    const { server, url } = await listen({ features: [groups(options)], onSession: () => {}, ...rest });
    const client = await enter(url);
    const [session] = server.sessions.values() as Iterable<ServerSession>;
    return { server, url, client, session: session as ServerSession };
  }
  const coded = (code: string) => expect.objectContaining({ code });

  it('hold for the groups of a session and the bytes of their names', async () => {
    const { server, session } = await one({ maxGroups: 3, maxNameBytes: 10 });
    expect(['aaa', 'bbb', 'éé'].map((name) => server.group(name).add(session))).toEqual([true, true, true]);
    expect(() => server.group('d').add(session)).toThrow(coded('over_budget'));
    // A member may be added again, and leaves room for another one.
    expect(server.group('aaa').add(session)).toBe(true);
    server.group('bbb').delete(session);
    expect(() => server.group('dddd').add(session)).toThrow(coded('over_budget'));
    expect(server.group('ddd').add(session)).toBe(true);
  });

  it('hold for the members of a group', async () => {
    const { server, url, session } = await one({ maxMembers: 1 });
    const other = await enter(url);
    await expect.poll(() => server.sessions.size).toBe(2);
    const second = server.sessions.get(other.id) as ServerSession;
    const group = server.group('room');
    expect(group.add(session)).toBe(true);
    expect(() => group.add(second)).toThrow(coded('over_budget'));
    group.delete(session);
    expect(group.add(second)).toBe(true);
  });

  it('hold for what a member shows', async () => {
    const { server, session } = await one({});
    const group = server.group('room');
    expect(group.add(session, { data: 'x'.repeat(1_022) })).toBe(true);
    expect(() => group.add(session, { data: 'x'.repeat(1_023) })).toThrow(coded('message_too_large'));
    expect(() => group.add(session, { data: () => {} })).toThrow(coded('invalid_argument'));
    expect(() => group.add(session, { dat: 1 } as never)).toThrow(coded('invalid_option'));
    expect(await group.members()).toEqual({
      members: [
        {
          id: session.id,
          node: expect.any(String),
          principal: undefined,
          state: 'joined',
          data: 'x'.repeat(1_022),
        },
      ],
      next: undefined,
    });
  });

  it('are whole numbers', () => {
    for (const options of [{ maxGroups: -1 }, { maxMembers: 1.5 }, { maxDataBytes: 1_025 }, { maxNames: 1 }])
      expect(() => createServer({ features: [groups(options as GroupsOptions)] })).toThrow(
        coded('invalid_option'),
      );
  });

  it('are beside authorize, which is asked once for each membership and may throw', async () => {
    const asked: string[] = [];
    const { server, session } = await one({
      authorize({ id }, group) {
        asked.push(`${id} ${group}`);
        if (group === 'broken') throw new Error('a fault');
        return group === 'open';
      },
    });
    expect([server.group('open').add(session), server.group('open').add(session)]).toEqual([true, true]);
    for (const name of ['closed', 'broken'])
      expect(() => server.group(name).add(session)).toThrow(coded('forbidden'));
    expect(asked).toEqual(['open', 'closed', 'broken'].map((name) => `${session.id} ${name}`));
  });
});

describe('who is in a group', () => {
  it('is told by page', async () => {
    const { server, url } = await listen();
    await fill(server, url, [{}, {}, {}]);
    const group = server.group('room');
    const ids = [...group].map(({ id }) => id).sort();
    const first = await group.members({ limit: 2 });
    expect(first.members.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    const second = await group.members({ limit: 2, after: first.next });
    expect([second.members.map(({ id }) => id), second.next]).toEqual([ids.slice(2), undefined]);
    for (const limit of [0, 1_001])
      await expect(group.members({ limit })).rejects.toMatchObject({ code: 'invalid_option' });
    // A client may have the place where a page begins, and other nodes end the link for one that they do not take.
    await expect(group.members({ after: `aaaaaa/${'x'.repeat(121)}` })).resolves.toBeDefined();
    await expect(group.members({ after: `aaaaaa/${'x'.repeat(122)}` })).rejects.toMatchObject({
      code: 'invalid_option',
    });
  });

  it('is told as it changes: once for each principal, whatever happens within 200 ms', async () => {
    const { server, port, url } = await listen({
      authenticate: ({ token }) => ({ principal: token as string }),
    });
    const proxy = await createCuttingProxy(port);
    open.push(proxy);
    const group = server.group('room');
    const end = new AbortController();
    const changes: string[] = [];
    const reading = (async () => {
      for await (const some of group.presence({ signal: end.signal }))
        changes.push(
          ...some.map(({ principal, state, data }) => `${principal} ${state} ${JSON.stringify(data)}`),
        );
    })();
    const ann = await enter(`ws://127.0.0.1:${proxy.port}/session`, {
      token: 'ann',
      reconnect: { minDelayMs: 1 },
    });
    await expect.poll(() => changes).toEqual(['ann joined undefined']);
    proxy.cut();
    await expect.poll(() => proxy.opened).toBe(2);
    await expect.poll(() => ann.state).toBe('established');
    const second = await enter(url, { token: 'ann' });
    const [member] = group;
    group.add(member as ServerSession, { data: { mood: 'glad' } });
    await expect.poll(() => changes.slice(1)).toEqual(['ann joined {"mood":"glad"}']);
    proxy.refuse(true);
    proxy.cut();
    await second.close();
    await expect.poll(() => changes.slice(2)).toEqual(['ann suspended {"mood":"glad"}']);
    server.group('room').delete(member as ServerSession);
    await expect.poll(() => changes.slice(3)).toEqual(['ann left undefined']);
    end.abort();
    await reading;
  });
});
