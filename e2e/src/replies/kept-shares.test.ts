import { setTimeout as pause } from 'node:timers/promises';
import type { FollowedReply, ProtocolError } from '@parlance/client';
import { keptReplies, type Logger, metrics } from '@parlance/server';
import { afterEach, expect, it } from 'vitest';
import { createPeers } from '../kit/peers.js';
import { textOfMetrics } from '../operate/scraping.js';

/** Kept replies of several principals, who share the memory of a node. */

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

const PART = 'x'.repeat(1_000);

async function textsOf(stream: AsyncIterable<{ readonly text: string }>): Promise<string[]> {
  const texts: string[] = [];
  for await (const { text } of stream) texts.push(text);
  return texts;
}

/** A request says how many parts it wants, and whether the handler ends then. */
async function serve(replies: object) {
  const kept: (string | undefined)[] = [];
  const lines: Record<string, unknown>[] = [];
  const log = (fields: object) => void lines.push({ ...fields });
  const logger: Logger = { debug() {}, info: log, warn: log, error: log };
  const { url, server } = await peers.serve({
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    features: [metrics(), keptReplies(replies)],
    logger,
    async *onRequest(request, { keep, signal }) {
      const [count, isOpen] = request.text.split(' ');
      kept.push(keep({ name: 'n' })?.id);
      for (let i = 0; i < Number(count); i++) yield `${i} ${PART}`;
      while (isOpen === 'open' && !signal.aborted) await pause(5);
    },
  });
  const { url: page } = await server.listenMetrics();
  const metric = async (name: string) =>
    Number(new RegExp(`^parlance_${name} (\\d+)`, 'm').exec(await textOfMetrics(page))?.[1]);
  const of = (event: string) => lines.filter((line) => line['event'] === event);
  return { url, kept, of, metric };
}

it('keeps the reply of a newcomer although others have filled the memory, and drops theirs that have ended', async () => {
  const { url, kept, of, metric } = await serve({ maxBytes: 1_000_000, maxOwnerBytes: 200_000 });
  for (let principal = 0; principal < 8; principal++) {
    const session = await peers.dial(url, { token: `p${principal}` });
    for (let i = 0; i < 5; i++) expect(await textsOf(session.stream('35'))).toHaveLength(35);
    await session.close();
  }
  const session = await peers.dial(url, { token: 'new' });
  const answer = await textsOf(session.stream('35'));
  expect(answer).toHaveLength(35);
  expect(await textsOf(session.follow('n'))).toEqual(answer);
  expect(kept).toHaveLength(41);
  expect(kept).not.toContain(undefined);
  expect(await metric('replies_kept_bytes')).toBeLessThanOrEqual(1_000_000);
  expect(await metric('replies_dropped_total')).toBe(of('reply.dropped').length);
  expect(of('reply.dropped').length).toBeGreaterThan(10);
  expect(of('reply.unkept')).toEqual([]);
  // Everybody has some.
  for (let principal = 0; principal < 8; principal++) {
    const one = await peers.dial(url, { token: `p${principal}` });
    expect(await one.replies(), `p${principal}`).not.toEqual([]);
    await one.close();
  }
});

it('tells the follower of a reply that is dropped that it is gone', async () => {
  const { url } = await serve({ maxOwnerBytes: 300_000 });
  const session = await peers.dial(url, { token: 'ada' });
  await textsOf(session.stream('200'));
  const reader = await peers.dial(url, { token: 'ada' });
  const reply: FollowedReply = reader.follow('n');
  const parts = reply[Symbol.asyncIterator]();
  expect((await parts.next()).value?.text).toBe(`0 ${PART}`);
  await textsOf(session.stream('200'));
  const error = await (async () => {
    for (;;) if ((await parts.next()).done === true) return undefined;
  })().catch((thrown: ProtocolError) => thrown);
  expect(error).toMatchObject({ code: 'gone', side: 'remote' });
  expect(await textsOf(reader.follow('n'))).toHaveLength(200);
});

it('sends a reply that has no room without keeping it, and says so once', async () => {
  const { url, kept, of, metric } = await serve({ maxBytes: 400_000 });
  const open = await peers.dial(url, { token: 'ada' });
  const running = open.stream('90 open');
  const parts = running[Symbol.asyncIterator]();
  for (let i = 0; i < 60; i++) await parts.next();
  const session = await peers.dial(url, { token: 'ada' });
  // The rest of her share is full of replies that are being written.
  const others = Array.from({ length: 60 }, () => session.stream('0 open'));
  const reading = others.map((each) =>
    each[Symbol.asyncIterator]()
      .next()
      .catch(() => {}),
  );
  await expect.poll(() => kept).toHaveLength(61);
  expect(kept).toContain(undefined);
  const unkept = of('reply.unkept').length;
  expect(await textsOf(session.stream('3'))).toHaveLength(3);
  expect(kept.at(-1)).toBeUndefined();
  expect(of('reply.unkept')).toHaveLength(unkept + 1);
  expect(await metric('replies_unkept_total')).toBe(unkept + 1);
  // Another principal has a share of its own.
  const other = await peers.dial(url, { token: 'bob' });
  const answer = await textsOf(other.stream('3'));
  expect(await textsOf(other.follow('n'))).toEqual(answer);
  for (const each of [running, ...others]) each.cancel();
  await Promise.all(reading);
});
