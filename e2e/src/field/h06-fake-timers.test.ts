import { type ClientSession, connect } from '@parlance/client';
import { createServer, type Server } from '@parlance/server';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

/** A user's tests with the fake timers of their runner, whose default also replaces `setImmediate` and `performance`. */

let server: Server;
let session: ClientSession;

beforeEach(() => {
  server = createServer({
    async *onRequest({ text }) {
      for (const word of ['you ', 'said ', text]) yield word;
    },
  });
});
afterEach(async () => {
  vi.useRealTimers();
  await session.close();
  await server.close();
});

const begin = async () => {
  const { url } = await server.listen();
  session = await connect(url);
};

async function answer(): Promise<string> {
  let text = (await session.request('hello')).text;
  for await (const part of session.stream('again')) text += `, ${part.text}`;
  return text;
}

const ANSWER = 'you said hello, you , said , again';

it('a session that began before them answers, although no time passes', async () => {
  await begin();
  vi.useFakeTimers();
  expect(await answer()).toBe(ANSWER);
});

it('a session that begins with them answers, also when they have been removed', async () => {
  vi.useFakeTimers();
  await begin();
  expect(await answer()).toBe(ANSWER);
  const pending = answer();
  vi.useRealTimers();
  expect(await pending).toBe(ANSWER);
  expect(await answer()).toBe(ANSWER);
});
