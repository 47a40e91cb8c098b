import { connect, type Session } from '@parlance/client';
import WebSocket from 'ws';
import { type Child, startChild } from '../../scripts/child-process.js';
import type { FollowServerCommands } from './follow/server.js';
import { type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';

/**
 * Kept replies: their cost for the server beside the same stream that is not kept, in turns; their bytes in the record
 * beside the bytes on the wire; how long a follower waits for a part beside the requester; one reply with many
 * followers; and the memory of many replies.
 */

const PARTS = 2_000;
/** Microseconds of CPU that keeping a part may cost. */
const MAX_KEEPING_US = 1.5;
const BATCH_BYTES = 21;
/** The pace of a fast model, in milliseconds. */
const INTERVAL_MS = 4;

type Server = Child<FollowServerCommands>;

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const server = startChild<FollowServerCommands>(
    new URL('./follow/server.ts', import.meta.url),
    [],
    ['--expose-gc'],
  );
  try {
    const url = `ws://127.0.0.1:${await server.call('port')}/session`;
    const dial = (token: string) => connect(url, { WebSocket, token });
    yield* keeping(server, dial, quick ? 8 : 30);
    yield* sizes(server, dial);
    yield* latency(dial, quick ? 300 : 2_000);
    yield* crowd(server, dial, quick ? 200 : 1_000, quick ? 10 : 40);
    yield* memory(server, dial, quick ? 2_000 : 10_000);
  } finally {
    server.stop();
  }
}

type Dial = (token: string) => Promise<Session>;

async function drain(session: Session, how: string): Promise<number> {
  let parts = 0;
  for await (const _part of session.stream(how)) parts++;
  return parts;
}

/** Server CPU for each part, kept and not, in turns. */
async function* keeping(server: Server, dial: Dial, rounds: number): AsyncGenerator<Row> {
  await using session = await dial('keeping');
  for (const [what, kind, batch] of [
    ['a part of 5 bytes', 'text', 0],
    ['a token by itself', 'tokens', 0],
    ['a token in a batch', 'tokens', BATCH_BYTES],
  ] as const) {
    const found = { plain: [] as number[], kept: [] as number[] };
    const extra: number[] = [];
    for (let round = -3; round < rounds; round++) {
      const order = round % 2 === 0 ? (['plain', 'kept'] as const) : (['kept', 'plain'] as const);
      const each = { plain: 0, kept: 0 };
      for (const way of order) {
        const before = await server.call('cpu');
        await drain(session, `${way} ${kind} ${PARTS} 0 ${batch}`);
        each[way] = ((await server.call('cpu')) - before) / PARTS;
      }
      if (round < 0) continue;
      found.plain.push(each.plain);
      found.kept.push(each.kept);
      extra.push(each.kept - each.plain);
    }
    const cost = median(extra);
    const baseline = { name: `not kept, +${cost.toFixed(2)}`, value: median(found.plain) };
    yield compare(`${what}, server CPU`, 'us/part', 'lower', median(found.kept), baseline, () => ({
      text: `<= +${MAX_KEEPING_US} us`,
      met: cost <= MAX_KEEPING_US,
    }));
  }
}

/** Bytes in the record and on the server's socket. */
async function* sizes(server: Server, dial: Dial): AsyncGenerator<Row> {
  await using session = await dial('sizes');
  for (const [what, kind, batch] of [
    ['a part of 5 bytes', 'text', 0],
    ['a token by itself', 'tokens', 0],
    ['a token in a batch', 'tokens', BATCH_BYTES],
  ] as const) {
    // The size of a reply without parts counts with the memory below.
    const base = await server.call('accounted');
    await drain(session, `kept ${kind} 0 0 0`);
    const empty = (await server.call('accounted')) - base;
    const [written, before] = [await server.call('written'), await server.call('accounted')];
    await drain(session, `kept ${kind} ${PARTS} 0 ${batch}`);
    const onWire = ((await server.call('written')) - written) / PARTS;
    const onRecord = ((await server.call('accounted')) - before - empty) / PARTS;
    yield compare(
      `${what}, on record`,
      'B',
      'lower',
      onRecord,
      { name: 'on the wire', value: onWire },
      (ratio) => ({
        text: '<= 1',
        met: ratio <= 1,
      }),
    );
  }
}

/** From `yield` to the loop that reads, for the requester and a follower in this process. */
async function* latency(dial: Dial, count: number): AsyncGenerator<Row> {
  await using asking = await dial('latency');
  await using following = await dial('latency');
  const taken = { requester: [] as number[], follower: [] as number[] };
  const read = async (who: keyof typeof taken, reply: AsyncIterable<{ readonly text: string }>) => {
    for await (const { text } of reply)
      taken[who].push(performance.timeOrigin + performance.now() - Number(text));
  };
  const asked = asking.stream(`kept time ${count} ${INTERVAL_MS} 0`);
  const first = asked[Symbol.asyncIterator]();
  await first.next();
  const reading = read('follower', following.follow(asked.keptId ?? '', { after: 1 }));
  await read('requester', { [Symbol.asyncIterator]: () => first });
  await reading;
  for (const share of [0.5, 0.99]) {
    const name = `yield to follower, p${share * 100}`;
    yield compare(name, 'ms', 'lower', rank(taken.follower, share), {
      name: 'requester',
      value: rank(taken.requester, share),
    });
  }
}

/** One reply with many followers in this process: CPU of the server, and when the last of them has a part. */
async function* crowd(server: Server, dial: Dial, followers: number, parts: number): AsyncGenerator<Row> {
  const asking = await dial('crowd');
  const sessions: Session[] = [];
  for (let i = 0; i < followers; i += 50) {
    sessions.push(
      ...(await Promise.all(Array.from({ length: Math.min(50, followers - i) }, () => dial('crowd')))),
    );
  }
  const arrivals = Array.from({ length: parts + 2 }, () => ({ first: 0, last: 0, count: 0 }));
  const asked = asking.stream(`kept time ${parts + 2} 300 0`);
  const own = asked[Symbol.asyncIterator]();
  await own.next();
  const id = asked.keptId ?? '';
  const follow = async (session: Session): Promise<void> => {
    let at = 1;
    for await (const { text } of session.follow(id, { after: 1 })) {
      const arrival = arrivals[at++];
      if (arrival === undefined) continue;
      arrival.first = Number(text);
      arrival.last = performance.timeOrigin + performance.now() - Number(text);
      arrival.count++;
    }
  };
  const reading = sessions.map(follow);
  const isThere = () => arrivals.some(({ count }) => count === followers);
  while (!isThere()) await new Promise((resolve) => setTimeout(resolve, 5));
  const before = await server.call('cpu');
  const start = arrivals.filter(({ count }) => count === followers).length;
  while (!(await own.next()).done);
  await Promise.all(reading);
  const cpu = (await server.call('cpu')) - before;
  const measured = arrivals.slice(start + 1);
  const value = cpu / (followers * measured.length);
  // The same part in as many sessions whose requesters read a stream of their own.
  const plain = await server.call('cpu');
  await Promise.all(sessions.map((session) => drain(session, `plain time ${parts} 300 0`)));
  const ownCpu = ((await server.call('cpu')) - plain) / (followers * parts);
  const label = `${followers} followers`;
  yield compare(`${label}, server CPU`, 'us/part', 'lower', value, { name: 'own streams', value: ownCpu });
  const slowest = median(measured.map(({ last }) => last));
  yield compare(`${label}, slowest has a part after`, 'ms', 'lower', slowest, {
    name: 'interval of 300',
    value: 300,
  });
  await Promise.all([asking, ...sessions].map((session) => session.close()));
}

/** Memory of many kept replies of 200 tokens. */
async function* memory(server: Server, dial: Dial, count: number): AsyncGenerator<Row> {
  await using session = await dial('memory');
  await drain(session, 'kept tokens 200 0 0');
  const [before, accounted] = [await server.call('memory'), await server.call('accounted')];
  for (let i = 0; i < count; i += 50) {
    await Promise.all(
      Array.from({ length: Math.min(50, count - i) }, () => drain(session, 'kept tokens 200 0 0')),
    );
  }
  const each = ((await server.call('accounted')) - accounted) / count;
  const value = ((await server.call('memory')) - before) / count;
  yield compare(
    `one of ${count} replies of 200 tokens`,
    'B',
    'lower',
    value,
    { name: 'its account', value: each },
    (ratio) => ({
      text: '<= 1',
      met: ratio <= 1,
    }),
  );
}

function rank(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] as number;
}
