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

it('none of them is sent as that by mistake', async () => {
  test = await createTestServer({ onRequest: (request) => ({ request }) as never, onError: () => {} });
  const session = await test.connect();
  const answer = session.request('x').catch((error: unknown) => error);
  await test.clock.advance(10);
  expect(await answer).toMatchObject({ code: 'internal' });
  await expect(session.send(session as never)).rejects.toMatchObject({ code: 'invalid_argument' });
});
