import { ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import type { KnownNode } from '../cluster/membership.js';
import { Unanswered } from '../cluster/replies/replies-link.js';
import { CHUNK_SIZE, readEntry, readJson } from '../cluster/replies/replies-message.js';
import { Arrival } from './arrival.js';
import { candidates, HandOver } from './hand-over.js';
import { MemoryReplyLog } from './memory-log.js';

const BOUNDS = { maxReplies: 1_000, maxReplyBytes: 2 ** 22, maxOwnerBytes: 2 ** 25, maxBytes: 2 ** 28 };
const nodeOf = (incarnation: string): KnownNode => ({ incarnation, address: '', proof: '' });
const NODES = Array.from({ length: 8 }, (_, i) => nodeOf(`node0${i}`));
const DONE = { fields: [], bytes: new Uint8Array(0) };

/** Another node that takes replies, unless `refuse` throws. */
function taker(refuse: (call: number) => void = () => {}) {
  const log = new MemoryReplyLog(BOUNDS);
  const arrivals = new Map<number, Arrival>();
  const state = { calls: 0, most: 0 };
  const ask = async (type: string, [number, isLast]: readonly unknown[], bytes = new Uint8Array(0)) => {
    refuse(state.calls++);
    expect(bytes.length).toBeLessThanOrEqual(CHUNK_SIZE);
    if (type === 'give') {
      const arrival = new Arrival({
        readEntry: (json) => readEntry(readJson(json)),
        begin: ({ parts: _parts, end: _end, ...head }) => log.receive(head),
        announce: async () => {},
        onTaken: () => {},
        reserve: () => ({ release() {} }),
        maxItem: 2 ** 22,
      });
      arrivals.set(number as number, arrival);
    }
    state.most = Math.max(state.most, arrivals.size);
    const arrival = arrivals.get(number as number) as Arrival;
    arrival.push(bytes);
    if (isLast === true) {
      arrivals.delete(number as number);
      await arrival.finish();
    }
    return DONE;
  };
  return { log, state, link: { ask } };
}

function setUp(takers: ReadonlyMap<string, ReturnType<typeof taker>>, nodes = NODES) {
  const log = new MemoryReplyLog(BOUNDS);
  const moved: string[] = [];
  const events: string[] = [];
  const note = ({ event }: Readonly<Record<string, unknown>>) => void events.push(String(event));
  const handOver = new HandOver({
    log,
    logger: { debug: note, info: note, warn: note, error: note },
    others: () => nodes,
    linkTo: ({ incarnation }) => takers.get(incarnation)?.link ?? { ask: () => Promise.reject(silent()) },
    onMoved: (id, node) => void moved.push(`${id} ${node}`),
  });
  const keep = (id: string, { parts = [Uint8Array.of(0, 1)], isOpen = false, owner = 'ada' } = {}) => {
    log.open({
      id: `reply_${id}`,
      owner,
      principal: undefined,
      name: undefined,
      share: undefined,
      encoding: undefined,
      ttlMs: 1_000,
      startedAt: 1,
    });
    for (const part of parts) log.append(`reply_${id}`, part);
    if (!isOpen) log.end(`reply_${id}`, { at: 2, failure: Uint8Array.of(7), metadata: Uint8Array.of(8) });
  };
  return { log, handOver, moved, events, keep };
}
const silent = () => new Unanswered('silent', 'it says nothing');
const full = () => {
  throw new ProtocolError('over_budget', 'it is full');
};
const [first, second, third, fourth] = candidates(NODES, 'ada').map(({ incarnation }) => incarnation);

describe('the nodes that take replies', () => {
  it('are three, the same ones wherever that is asked, and different ones for different owners', () => {
    const shuffled = NODES.toReversed();
    const firsts = new Map<string, number>();
    for (let i = 0; i < 4_000; i++) {
      const chosen = candidates(NODES, `owner ${i}`).map(({ incarnation }) => incarnation);
      expect(new Set(chosen).size).toBe(3);
      expect(candidates(shuffled, `owner ${i}`).map(({ incarnation }) => incarnation)).toEqual(chosen);
      const [best = '', next] = chosen;
      firsts.set(best, (firsts.get(best) ?? 0) + 1);
      const without = NODES.filter(({ incarnation }) => incarnation !== best);
      expect(candidates(without, `owner ${i}`)[0]?.incarnation).toBe(next);
    }
    for (const node of NODES) expect(firsts.get(node.incarnation)).toBeGreaterThan(400);
    expect(fourth).toBeUndefined();
  });
});

describe('handing over', () => {
  it('moves what has ended, byte by byte, in pieces, and the rest when it has ended', async () => {
    const there = taker();
    const { log, handOver, moved, keep } = setUp(new Map([[first as string, there]]));
    const large = Array.from({ length: 30 }, (_, i) => new Uint8Array(9_000).fill(i));
    large.push(new Uint8Array(3 * CHUNK_SIZE).fill(9));
    keep('small');
    keep('empty', { parts: [] });
    keep('large', { parts: large });
    keep('open', { isOpen: true });
    const expected = new Map(
      ['small', 'empty', 'large'].map((id) => [id, readAll(log, `reply_${id}`)] as const),
    );
    handOver.start();
    await expect.poll(() => moved.length).toBe(3);
    for (const [id, content] of expected) expect(readAll(there.log, `reply_${id}`)).toEqual(content);
    expect([...log.all()].map(({ id }) => id)).toEqual(['reply_open']);
    log.end('reply_open', { at: 3, failure: undefined, metadata: undefined });
    expect(await handOver.finish(10_000)).toEqual({ moved: 4, lost: 0 });
    expect(log.usage).toEqual({ replies: 0, bytes: 0 });
    expect(moved).toContain(`reply_open ${first}`);
  });

  it('moves few replies at a time', async () => {
    const there = taker();
    const { handOver, keep } = setUp(new Map([[first as string, there]]));
    for (let i = 0; i < 100; i++) keep(String(i));
    handOver.start();
    handOver.start();
    expect(await handOver.finish(10_000)).toEqual({ moved: 100, lost: 0 });
    expect(there.state.most).toBeLessThanOrEqual(16);
    expect(there.state.calls).toBe(100);
  });

  it('asks the next node if one has no room, and says once that none has', async () => {
    const there = taker();
    const some = new Map([
      [first as string, taker(full)],
      [second as string, there],
    ]);
    const lucky = setUp(some);
    lucky.keep('a');
    expect(await lucky.handOver.finish(10_000)).toEqual({ moved: 1, lost: 0 });
    expect(there.log.has('reply_a')).toBe(true);

    const none = new Map([first, second, third].map((name) => [name as string, taker(full)] as const));
    const { log, handOver, events, keep } = setUp(none);
    keep('a');
    handOver.start();
    await expect.poll(() => handOver.counts.lost).toBe(1);
    handOver.start();
    expect(await handOver.finish(10_000)).toEqual({ moved: 0, lost: 1 });
    expect(events.filter((event) => event === 'reply.lost')).toHaveLength(1);
    // It can be read here until the node is gone.
    expect(log.has('reply_a')).toBe(true);
  });

  it('tries again while no node answers, also in the middle of a reply', async () => {
    let failures = 0;
    const there = taker((call) => {
      if (call % 2 === 1 && failures++ < 3) throw silent();
    });
    const { log, handOver, keep } = setUp(new Map([[first as string, there]]));
    const parts = Array.from({ length: 20 }, (_, i) => new Uint8Array(9_000).fill(i));
    keep('a', { parts });
    const expected = readAll(log, 'reply_a');
    expect(await handOver.finish(30_000)).toEqual({ moved: 1, lost: 0 });
    expect(failures).toBeGreaterThan(0);
    expect(readAll(there.log, 'reply_a')).toEqual(expected);
  });

  it('says what is left when the time is over', async () => {
    const { log, handOver, events, keep } = setUp(new Map());
    keep('a');
    expect(await handOver.finish(20)).toEqual({ moved: 0, lost: 1 });
    expect(events.filter((event) => event === 'reply.lost')).toHaveLength(1);
    expect(log.has('reply_a')).toBe(true);
  });

  it('does nothing without another node', async () => {
    const { handOver, events, keep } = setUp(new Map(), []);
    keep('a');
    expect(await handOver.finish(10_000)).toEqual({ moved: 0, lost: 0 });
    expect(events).toEqual([]);
  });
});

function readAll(log: MemoryReplyLog, id: string) {
  const records: Uint8Array[] = [];
  for (;;) {
    const pieces = log.read(id, records.length);
    records.push(...(pieces?.records ?? []));
    if (pieces?.end !== undefined) return { records, end: pieces.end };
  }
}
