import { inspect } from 'node:util';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, expect, it } from 'vitest';

/** Messages, sessions and replies as `console.log` and `JSON.stringify` show them. */

let test: TestServer | undefined;
afterEach(() => test?.close());

it('messages, sessions and replies show what they are', async () => {
  const seen: string[] = [];
  const show = (value: unknown) =>
    seen.push(inspect(value, { breakLength: Infinity }), JSON.stringify(value));
  test = await createTestServer({
    authenticate: () => ({ principal: 'ada' }),
    async onSession(session) {
      show(session);
      for await (const message of session) show(message);
    },
    async *onRequest(request) {
      show(request);
      yield 'a';
    },
  });
  const session = await test.connect({ token: 't', encodings: [] });
  await session.send('hello', { algorithm: 'NONE' });
  await session.send(new Uint8Array([0xff, 0xfe]), { algorithm: 'NONE' });
  await test.clock.advance(10);
  const reply = session.stream('ask', { metadata: { a: 1 }, algorithm: 'NONE' });
  await test.clock.advance(10);
  show(reply);
  const id = session.id;
  show(session);
  const [served, ...rest] = seen.map((each) => each.replaceAll(id, 'ID'));
  expect(served).toBe("Session { id: 'ID', state: 'established', principal: 'ada' }");
  expect(rest).toEqual([
    '{"id":"ID","state":"established","principal":"ada"}',
    "Message { text: 'hello', algorithm: 'NONE' }",
    '{"text":"hello","algorithm":"NONE"}',
    "Message { bytes: 2, algorithm: 'NONE' }",
    '{"bytes":2,"algorithm":"NONE"}',
    "Message { text: 'ask', algorithm: 'NONE', metadata: { a: 1 } }",
    '{"text":"ask","algorithm":"NONE","metadata":{"a":1}}',
    'Reply { id: 1, position: 0 }',
    '{"id":1,"position":0}',
    "Session { id: 'ID', state: 'established' }",
    '{"id":"ID","state":"established"}',
  ]);
});

it('a copy of a message has documented members only, and crosses to a worker', async () => {
  const seen: object[] = [];
  test = await createTestServer({
    async onSession(session) {
      for await (const message of session) seen.push(message);
    },
    async *onRequest(request) {
      seen.push(request);
      yield 'a';
    },
  });
  const session = await test.connect({ encodings: [] });
  await session.send('hello');
  const sent = session.sendTensor({
    payloadType: 'hidden_state',
    dtype: 'float32',
    shape: [1],
    data: new Uint8Array(4),
  });
  await test.clock.advance(10);
  await sent;
  const asked = session.request('ask');
  await test.clock.advance(10);
  seen.push(await asked);
  const reply = session.stream('ask')[Symbol.asyncIterator]();
  await test.clock.advance(10);
  seen.push((await reply.next()).value as object);
  const documented = ['from', 'algorithm', 'codedLength', 'tokens', 'header', 'metadata', 'tensor'].concat([
    'securityStatus',
    'number',
    'isRedelivered',
  ]);
  expect(seen.length).toBe(6);
  for (const message of seen) {
    const copied = { ...message };
    expect(Object.keys(copied).filter((name) => !documented.includes(name))).toEqual([]);
    // A tensor has a method of its own.
    const isTensor = 'tensor' in copied;
    if (!isTensor) expect(Object.keys(structuredClone(message))).toEqual(Object.keys(copied));
    expect(inspect(copied).length).toBeLessThan(1_500);
  }
});

it('a server and its agents show what they are', async () => {
  test = await createTestServer({ authenticate: ({ token = '' }) => ({ principal: 'p', agentId: token }) });
  const session = await test.connect({ token: 'ann', agent: {} });
  const opening = session.agents();
  await test.clock.advance(10);
  const agents = await opening;
  expect([inspect(test.server), JSON.stringify(test.server)]).toEqual([
    'Server { sessions: 1 }',
    '{"sessions":1}',
  ]);
  expect(inspect(agents)).toBe(`Agents { list: ${inspect(agents.list)} }`);
  expect(JSON.parse(JSON.stringify(agents))).toEqual({ list: agents.list });
});

it('none of them is sent as that by mistake', async () => {
  test = await createTestServer({ onRequest: (request) => ({ request }) as never, onError: () => {} });
  const session = await test.connect();
  const answer = session.request('x').catch((error: unknown) => error);
  await test.clock.advance(10);
  expect(await answer).toMatchObject({ code: 'internal' });
  await expect(session.send(session as never)).rejects.toMatchObject({ code: 'invalid_argument' });
});
