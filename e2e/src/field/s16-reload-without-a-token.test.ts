import type { ClientSession } from '@parlance/client';
import type { ServerOptions } from '@parlance/server';
import { afterEach, expect, it } from 'vitest';
import { MemoryStore } from '../kit/memory-store.js';
import { createPeers } from '../kit/peers.js';

/** A page that was loaded again in mid-answer reads the rest in as few bytes without authentication as with it. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const PARTS = 60;
const BEFORE = 20;
const partOf = (index: number): string =>
  JSON.stringify({
    id: 'chatcmpl-aXkfB7fjw01kskfnw',
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model: 'some-model-of-a-large-house',
    choices: [{ index: 0, delta: { content: ` word ${index}` }, finish_reason: null }],
  });

/** Bytes on the wire for the rest of an answer, once its page was loaded again. */
async function bytesOfRest(authenticate: ServerOptions['authenticate'], token?: string): Promise<number> {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { url } = await peers.serve({
    ...(authenticate && { authenticate }),
    async *onRequest(_request, { keep }) {
      keep({ name: 'answer' });
      for (let index = 0; index < PARTS; index++) {
        if (index === BEFORE) await released;
        yield partOf(index);
      }
    },
  });
  const store = new MemoryStore();
  const dial = (): Promise<ClientSession> =>
    peers.dial(url, { store, ...(token !== undefined && { token }) });
  const page = await dial();
  let read = 0;
  // A loop that ends would cancel the answer.
  const parts = page.stream('What next?')[Symbol.asyncIterator]();
  while (read < BEFORE) expect((await parts.next()).value?.text).toBe(partOf(read++));
  await page.detach();
  const next = await dial();
  const reply = next.follow('answer', { after: BEFORE });
  const before = next.stats().received.wireBytes;
  release();
  for await (const { text } of reply) expect(text).toBe(partOf(read++));
  expect(read).toBe(PARTS);
  return next.stats().received.wireBytes - before;
}

it('costs what it costs with a token', async () => {
  const known = await bytesOfRest(({ token = '' }) => ({ principal: token }), 'ann');
  const unknown = await bytesOfRest(undefined);
  expect(unknown).toBeLessThan(2 * known);
  expect(unknown).toBeLessThan((PARTS - BEFORE) * partOf(0).length * 0.5);
});

it('shares nothing with a session of another page that follows the answer', async () => {
  const { url } = await peers.serve({
    async *onRequest(_request, { keep }) {
      keep({ name: 'answer' });
      yield partOf(0);
    },
  });
  const page = await peers.dial(url, { store: new MemoryStore() });
  for await (const { text } of page.stream('What next?')) expect(text).toBe(partOf(0));
  const other = await peers.dial(url, { store: new MemoryStore() });
  const read = async () => {
    for await (const { text } of other.follow('answer')) expect(text).toBe('nothing');
  };
  await expect(read()).rejects.toMatchObject({ code: 'unknown_reply' });
});

it.each([
  ['its secret', 'a1'.repeat(16), 'a1'.repeat(16), true],
  ['another secret', 'a1'.repeat(16), 'b1'.repeat(16), false],
  ['a word that others may have too', 'q'.repeat(32), 'q'.repeat(32), false],
  ['a secret that is too short', 'a'.repeat(31), 'a'.repeat(31), false],
  ['no token', undefined, undefined, false],
])('without authentication, a second tab that shows %s', async (_what, first, second, reads) => {
  const { url } = await peers.serve({
    async *onRequest(_request, { keep }) {
      keep({ name: 'answer' });
      yield partOf(0);
    },
  });
  const dial = (token: string | undefined) => peers.dial(url, { ...(token !== undefined && { token }) });
  for await (const { text } of (await dial(first)).stream('What next?')) expect(text).toBe(partOf(0));
  const other = await dial(second);
  const read = async () => {
    const texts: string[] = [];
    for await (const { text } of other.follow('answer')) texts.push(text);
    return texts;
  };
  expect(await other.replies()).toHaveLength(reads ? 1 : 0);
  if (reads) expect(await read()).toEqual([partOf(0)]);
  else await expect(read()).rejects.toMatchObject({ code: 'unknown_reply' });
});
