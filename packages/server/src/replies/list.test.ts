import { describe, expect, it } from 'vitest';
import type { ReplyEntry } from '../engine/logs/reply.js';
import { listReplies, MAX_ASKED, MAX_LISTED } from './list.js';
import { Turns } from './turns.js';

const entries = (count: number, owner: string): ReplyEntry[] =>
  Array.from({ length: count }, (_, i) => ({
    id: `reply_${owner}${i}`,
    owner,
    principal: owner,
    name: 'n',
    share: '1',
    encoding: undefined,
    ttlMs: 10,
    startedAt: i,
    parts: i,
    end: undefined,
  }));

interface Listed {
  readonly id: string;
  readonly own: boolean;
  readonly name?: string;
}

async function list(
  all: readonly ReplyEntry[],
  mayFollow: (entry: ReplyEntry) => boolean,
  signal = new AbortController().signal,
) {
  const figures = { asked: 0, atOnce: 0, rests: 0 };
  let now = 0;
  const listed: Listed[] = [];
  const options = {
    owner: 'ada',
    async mayFollow(entry: ReplyEntry) {
      figures.asked++;
      figures.atOnce = Math.max(figures.atOnce, ++now);
      await undefined;
      now--;
      return mayFollow(entry);
    },
    rest: async () => void figures.rests++,
    signal,
  };
  for await (const { json } of listReplies(all, options)) listed.push(...(json as Listed[]));
  return { listed, ...figures };
}

describe('a list of replies', () => {
  it('has all own replies and those of others that the application shows, in their order', async () => {
    const mixed = entries(250, 'ada').flatMap((own, i) => [own, entries(250, 'bob')[i] as ReplyEntry]);
    const { listed, asked, rests } = await list(mixed, ({ parts }) => parts % 2 === 0);
    const expected = mixed.filter(({ owner, parts }) => owner === 'ada' || parts % 2 === 0);
    expect(listed.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
    // Names are their owner's.
    expect(listed.every(({ own, name }) => own === (name === 'n'))).toBe(true);
    expect(asked).toBe(250);
    expect(rests).toBe(5);
  });

  it.each([
    ['refuses', false, 0],
    ['shows', true, MAX_LISTED],
  ])(
    'asks a bounded number of questions, and so many at a time, if the application %s all',
    async (_what, shows, length) => {
      const { listed, asked, atOnce } = await list(entries(10_000, 'bob'), () => shows);
      expect([listed.length, asked]).toEqual([length, MAX_ASKED]);
      expect(atOnce).toBe(100);
    },
  );

  it('shows own replies that are older than all that it asks about', async () => {
    const { listed, asked } = await list(
      [...entries(MAX_ASKED + 1, 'bob'), ...entries(5, 'ada')],
      () => false,
    );
    expect([listed.length, asked]).toEqual([5, MAX_ASKED]);
  });

  it.each([MAX_LISTED, MAX_LISTED + 1])('has at most n of %i own replies', async (count) => {
    expect((await list(entries(count, 'ada'), () => true)).listed).toHaveLength(MAX_LISTED);
  });

  it('ends when its requester does not want it any more', async () => {
    const { listed } = await list(entries(500, 'ada'), () => true, AbortSignal.abort());
    expect(listed).toHaveLength(100);
  });
});

describe('turns', () => {
  it('come one after the other for each key, and leave nothing behind', async () => {
    const turns = new Turns();
    const log: string[] = [];
    const work = async (key: string, name: string) => {
      const turn = await turns.next(key);
      log.push(`${name} begins`);
      await new Promise((resolve) => setImmediate(resolve));
      log.push(`${name} ends`);
      turn.over();
    };
    const all = [work('a', '1'), work('a', '2'), work('b', '3')];
    expect(turns.size).toBe(2);
    await Promise.all(all);
    expect(log.indexOf('2 begins')).toBeGreaterThan(log.indexOf('1 ends'));
    expect(log.indexOf('3 begins')).toBeLessThan(log.indexOf('1 ends'));
    expect(turns.size).toBe(0);
  });
});
