import { newReplyId } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { encodeRecord } from '../../replies/record.js';
import { Seal } from '../seal/keys.js';
import {
  type EngineBounds,
  endCharge,
  type ReplyBatch,
  type ReplyChanges,
  type ReplyLogs,
  UNKNOWN,
} from './logs.js';
import { memoryReplies } from './memory.js';
import type { ReplyEnd, ReplyHead } from './reply.js';
import { sealedReplies } from './sealed.js';

const LIVE_MS = 60_000;
const BOUNDS: EngineBounds = { maxReplies: 100, maxReplyBytes: 4 << 20, maxOwnerBytes: 32 << 20 };
const [A, B] = [1, 2].map((byte) => new Uint8Array(32).fill(byte)) as [Uint8Array, Uint8Array];
const KEY = new Seal(A);
const REFUSED = expect.objectContaining({ code: 'authentication_failed' });

const headOf = (rest: Partial<ReplyHead> = {}): ReplyHead => ({
  ...{
    id: newReplyId('aaaaaa'),
    owner: 'principal:ada',
    principal: 'ada',
    name: 'chat',
    share: '{"with":"bob"}',
  },
  ...{ encoding: undefined, ttlMs: LIVE_MS, startedAt: Date.now() },
  ...rest,
});
const text = (value: string) => new Uint8Array(Buffer.from(value));
const recordOf = (value: string, metadata?: string) =>
  encodeRecord(
    { codec: 0, bytes: text(value), originalLength: value.length, secret: false } as never,
    metadata === undefined ? undefined : text(metadata),
  );
const endOf = (head: ReplyHead, parts: number | undefined, end: Partial<ReplyEnd> = {}) => ({
  ...{ id: head.id, owner: head.owner, parts, by: 'aaaaaa', ttlMs: LIVE_MS },
  end: { at: 1_700_000_000_000, failure: undefined, metadata: undefined, ...end },
});
/** Parts after `from` others; plain ones take no room that matters here. */
const batchOf = (
  { id, owner }: ReplyHead,
  from: number,
  records: readonly Uint8Array[],
  metadata: ReplyBatch['metadata'] = [],
): ReplyBatch => ({ id, owner, from, offset: 0, records, metadata });

/** An engine whose calls a test sees, and whose answers it may change. */
function spied(change: (name: string, answer: unknown) => unknown = (_, answer) => answer) {
  const calls: { readonly name: keyof ReplyLogs; readonly args: readonly unknown[] }[] = [];
  let replies = memoryReplies(Date.now);
  const call = (name: keyof ReplyLogs, args: readonly unknown[]): unknown =>
    (replies[name] as (...args: readonly unknown[]) => unknown)(...args);
  const engine = new Proxy(replies, {
    get(_, name: keyof ReplyLogs) {
      return (...args: unknown[]) => {
        calls.push({ name, args });
        const answer = call(name, args);
        return answer instanceof Promise ? answer.then((value) => change(name, value)) : answer;
      };
    },
  });
  /** The engine is as it was after so many calls. */
  async function putBack(count: number): Promise<void> {
    replies = memoryReplies(Date.now);
    for (const { name, args } of calls.slice(0, count)) await call(name, args);
  }
  return { engine, calls, putBack };
}

async function written(sealed: ReplyLogs, head: ReplyHead, count = 3) {
  await sealed.open(head, BOUNDS, LIVE_MS);
  const records = Array.from({ length: count }, (_, i) =>
    recordOf(`secret ${i}`, i % 2 === 1 ? `m${i}` : undefined),
  );
  const metadata = records.flatMap((_, i) => (i % 2 === 1 ? [[i + 1, text(`m${i}`)] as const] : []));
  expect(await sealed.append(batchOf(head, 0, records, metadata), BOUNDS, LIVE_MS)).toBe('done');
  return records;
}

describe('sealed replies', () => {
  it('are read as they were written, from every part on, at every node, and by their name', async () => {
    const { engine } = spied();
    const [a, b] = [sealedReplies(engine, KEY), sealedReplies(engine, KEY)];
    const head = headOf();
    const records = await written(a, head, 5);
    expect(await b.find(head.id)).toMatchObject({ ...head, parts: 5 });
    expect(await b.named(head.owner, 'chat')).toMatchObject({ id: head.id, name: 'chat', owner: head.owner });
    expect(await b.named(head.owner, 'other')).toBeUndefined();
    expect(await b.named('principal:bob', 'chat')).toBeUndefined();
    const metadata = [undefined, undefined, 'm1', 'm1', 'm3', 'm3'].map((each) => each && text(each));
    for (let after = 0; after <= 5; after++)
      expect(await b.read(head.id, after)).toEqual({
        ...{ records: records.slice(after), metadata: metadata[after], end: undefined },
      });
    const end = { failure: text('why'), metadata: text('more') };
    expect(await a.end(endOf(head, 5, end), BOUNDS)).toBe('done');
    expect((await b.read(head.id, 2))?.end).toEqual({ at: 1_700_000_000_000, ...end });
    expect((await b.read(head.id, 9))?.end).toMatchObject(end);
    expect((await b.list(head.owner)).entries).toMatchObject([head]);
    expect(await b.shared()).toEqual([head.id]);
    await b.drop(head);
    expect(await a.find(head.id)).toBeUndefined();
  });

  it('have an empty end that is known to be one', async () => {
    const { engine } = spied();
    const sealed = sealedReplies(engine, KEY);
    const head = headOf({ name: undefined, share: undefined, principal: undefined });
    await written(sealed, head, 1);
    await sealed.end(endOf(head, 1), BOUNDS);
    const node = sealedReplies(engine, KEY);
    expect((await node.read(head.id, 0))?.end).toMatchObject({ failure: undefined, metadata: undefined });
    expect(await node.find(head.id)).toMatchObject({
      name: undefined,
      share: undefined,
      principal: undefined,
    });
  });

  it('tell the engine nothing that can be read', async () => {
    const { engine, calls } = spied();
    const sealed = sealedReplies(engine, KEY);
    const [lovelace, share] = ['ada-lovelace', '{"with":"charles-babbage"}'];
    const head = headOf({ owner: `principal:${lovelace}`, principal: lovelace, name: 'diagnosis', share });
    await written(sealed, head);
    await sealed.named(head.owner, 'diagnosis');
    await sealed.end(endOf(head, 3, { failure: text('secret why'), metadata: text('secret more') }), BOUNDS);
    await sealed.list(head.owner);
    await sealed.vouch('sess_1', head.owner, ['hash of a token'], LIVE_MS);
    await sealed.prove('sess_1', 'hash of a token');
    expect(calls.length).toBeGreaterThan(6);
    const told = calls.map(({ args }) =>
      JSON.stringify(args, (_, value) =>
        value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value,
      ),
    );
    for (const each of told) expect(each).not.toMatch(/lovelace|babbage|secret|diagnosis|hash of/);
  });

  it('are refused if anything of a reading was changed, exchanged or is from another time', async () => {
    let change = (pieces: Awaited<ReturnType<ReplyLogs['read']>>) => pieces;
    const { engine } = spied((name, answer) => (name === 'read' ? change(answer as never) : answer));
    const sealed = sealedReplies(engine, KEY);
    const [head, other] = [headOf(), headOf()];
    await written(sealed, head, 5);
    await written(sealed, other, 5);
    const running = await engine.read(head.id, 0);
    await sealed.end(endOf(head, 5, { failure: text('why') }), BOUNDS);
    await sealed.end(endOf(other, 5), BOUNDS);
    const [pieces, foreign] = [await engine.read(head.id, 2), await engine.read(other.id, 2)];
    const early = await engine.read(head.id, 1);
    if (pieces?.end === undefined || foreign?.end === undefined) throw new Error('there is no end');
    const { records, metadata, end } = pieces;
    const flipped = (bytes: Uint8Array, at: number) => bytes.with(at, bytes[at]! ^ 1);
    const at = (i: number, record: Uint8Array) => ({ ...pieces, records: records.with(i, record) });
    const [first, second, third] = records as [Uint8Array, Uint8Array, Uint8Array];
    const ends = [end.metadata!, foreign.end.metadata!] as const;
    const faults = [
      ...Array.from(first, (_, i) => at(0, flipped(first, i))),
      at(0, first.subarray(1)),
      at(0, new Uint8Array(0)),
      at(1, recordOf('plain')),
      { ...pieces, records: [second, first, third] },
      { ...pieces, records: [second, third] },
      { ...pieces, records: [first, second] },
      { ...pieces, records: [...records, third] },
      at(0, foreign.records[0]!),
      { ...pieces, metadata: undefined },
      { ...pieces, metadata: foreign.metadata },
      { ...pieces, metadata: flipped(metadata!, 1) },
      { ...pieces, metadata: text('m1') },
      ...Array.from(ends[0], (_, i) => ({ ...pieces, end: { ...end, metadata: flipped(ends[0], i) } })),
      { ...pieces, end: { ...end, metadata: undefined } },
      { ...pieces, end: { ...end, metadata: ends[1] } },
    ];
    for (const [i, fault] of faults.entries()) {
      change = () => fault;
      await expect(sealed.read(head.id, 2), `fault ${i}`).rejects.toEqual(REFUSED);
    }
    // Metadata of an earlier part, and what another place has.
    const late = await engine.read(head.id, 4);
    change = () => late && { ...late, metadata };
    await expect(sealed.read(head.id, 4)).rejects.toEqual(REFUSED);
    change = () => early;
    await expect(sealed.read(head.id, 2)).rejects.toEqual(REFUSED);
    // A failure that is taken away leaves a reading without an end, which is what it was once.
    change = () => running;
    expect((await sealed.read(head.id, 0))?.end).toBeUndefined();
    change = (answer) => answer;
    expect((await sealed.read(head.id, 2))?.end?.failure).toEqual(text('why'));
  });

  it('are refused with a head that was changed, or is of another reply', async () => {
    let principal: string | undefined;
    const { engine } = spied((name, answer) =>
      name === 'find' && principal !== undefined ? { ...(answer as object), principal } : answer,
    );
    const sealed = sealedReplies(engine, KEY);
    const [head, other] = [headOf(), headOf()];
    await written(sealed, head);
    await written(sealed, other);
    const { principal: foreign = '' } = (await engine.find(other.id)) ?? {};
    const { principal: own = '' } = (await engine.find(head.id)) ?? {};
    const changed = Buffer.from(own, 'base64url');
    const faults = Array.from(changed, (byte, i) =>
      Buffer.from(changed.with(i, byte ^ 1)).toString('base64url'),
    );
    for (principal of [foreign, 'ada', '', own.slice(0, 20), ...faults]) {
      const node = sealedReplies(engine, KEY);
      await expect(node.find(head.id)).rejects.toEqual(REFUSED);
      await expect(node.read(head.id, 0)).rejects.toEqual(REFUSED);
    }
    principal = undefined;
    expect(await sealedReplies(engine, KEY).find(head.id)).toMatchObject(head);
  });

  it('are found, listed, ended and proved with keys that were replaced', async () => {
    const { engine } = spied();
    const before = sealedReplies(engine, KEY);
    const replaced = new Seal(B, [A]);
    const node = sealedReplies(engine, replaced);
    const [old, running] = [headOf({ name: 'old' }), headOf({ name: undefined })];
    const records = await written(before, old);
    await written(before, running);
    await before.end(endOf(old, 3), BOUNDS);
    await before.vouch('sess_1', 'session:x', ['hash'], LIVE_MS);
    const young = headOf({ name: 'young' });
    await written(node, young);
    expect(await node.named(old.owner, 'old')).toMatchObject(old);
    expect((await node.read(old.id, 0))?.records).toEqual(records);
    expect(
      await node.end({ ...endOf(running, undefined, { failure: text('f') }), by: 'bbbbbb' }, BOUNDS),
    ).toBe('done');
    expect(await before.append(batchOf(running, 3, records), BOUNDS, LIVE_MS)).toBe('ended');
    expect(await node.prove('sess_1', 'hash')).toBe('session:x');
    const listed: string[] = [];
    let from: number | undefined;
    do {
      const page = await node.list(old.owner, from);
      listed.push(...page.entries.map(({ id }) => id));
      ({ before: from } = page);
    } while (from !== undefined);
    expect(listed).toEqual([young.id, running.id, old.id]);
    const without = sealedReplies(engine, new Seal(B));
    await expect(without.find(old.id)).rejects.toEqual(REFUSED);
    expect(await without.named(old.owner, 'old')).toBeUndefined();
    expect(await without.prove('sess_1', 'hash')).toBeUndefined();
    expect(await without.find(young.id)).toMatchObject(young);
  });

  it('prove nothing that another session has, or that was written without the key', async () => {
    const { engine } = spied();
    const sealed = sealedReplies(engine, KEY);
    await sealed.vouch('sess_1', 'session:x', ['h1', 'h2'], LIVE_MS);
    expect(await sealed.prove('sess_1', 'h1')).toBe('session:x');
    expect(await sealed.prove('sess_1', 'h3')).toBeUndefined();
    expect(await sealed.prove('sess_2', 'h1')).toBeUndefined();
    await engine.vouch('sess_3', 'session:x', [KEY.newest.nameOf('token', 'sess_3', 'h1')], LIVE_MS);
    await expect(sealed.prove('sess_3', 'h1')).rejects.toEqual(REFUSED);
  });

  it('tell watchers the parts, and nothing that is not authentic', async () => {
    const engine = memoryReplies(Date.now);
    const [a, b] = [sealedReplies(engine, KEY), sealedReplies(engine, KEY)];
    const head = headOf();
    await written(a, head, 2);
    const news: ReplyChanges[] = [];
    const stop = b.watch(head.id, (each) => void news.push(each));
    await expect.poll(() => news).toEqual([UNKNOWN]);
    const [third, fourth] = [recordOf('3'), recordOf('4')];
    await a.append(batchOf(head, 2, [third]), BOUNDS, LIVE_MS);
    // Before its keys are known here.
    expect(news.splice(0)).toEqual([UNKNOWN, UNKNOWN]);
    await b.read(head.id, 2);
    await a.append(batchOf(head, 3, [fourth]), BOUNDS, LIVE_MS);
    expect(news.splice(0)).toEqual([{ from: 3, records: [fourth] }]);
    await engine.append(batchOf(head, 4, [recordOf('plain')]), BOUNDS, LIVE_MS);
    expect(news.splice(0)).toEqual([UNKNOWN]);
    stop();
  });

  it('are sealed once for each part, also if calls are repeated', async () => {
    const { engine, calls } = spied();
    const sealed = sealedReplies(engine, KEY);
    const head = headOf();
    const batch = batchOf(head, 0, [recordOf('1'), recordOf('2')]);
    expect(await sealed.append(batch, BOUNDS, LIVE_MS)).toBe('gone');
    for (let twice = 0; twice < 2; twice++) expect(await sealed.open(head, BOUNDS, LIVE_MS)).toBe('done');
    const full = { ...BOUNDS, maxReplyBytes: 1 };
    expect(await sealed.append(batch, full, LIVE_MS)).toBe('reply_too_large');
    for (let twice = 0; twice < 2; twice++) expect(await sealed.append(batch, BOUNDS, LIVE_MS)).toBe('done');
    expect(await sealed.append(batchOf(head, 1, [recordOf('b'), recordOf('c')]), BOUNDS, LIVE_MS)).toBe(
      'behind',
    );
    expect(await sealed.append(batchOf(head, 3, [recordOf('4')]), BOUNDS, LIVE_MS)).toBe('behind');
    const appended = calls
      .filter(({ name }) => name === 'append')
      .map(({ args: [first] }) => first as ReplyBatch);
    const byNumber = new Map<number, string>();
    for (const { from, records } of appended)
      for (const [i, record] of records.entries()) {
        const spelled = Buffer.from(record).toString('hex');
        expect(byNumber.get(from + i) ?? spelled).toBe(spelled);
        byNumber.set(from + i, spelled);
      }
    expect([appended.length, byNumber.size]).toEqual([2, 2]);
    // Two ends of one reply have nothing in common.
    await sealed.end({ ...endOf(head, 2), parts: 9 }, BOUNDS);
    await sealed.end(endOf(head, 2), BOUNDS);
    const ends = calls
      .filter(({ name }) => name === 'end')
      .map(({ args: [first] }) => first as { end: ReplyEnd });
    expect(new Set(ends.map(({ end }) => Buffer.from(end.metadata ?? []).toString('hex')))).toHaveLength(2);
  });

  it('have keys of their own for each writer, also if the engine is put back to before it came', async () => {
    const { engine, calls, putBack } = spied();
    const [a, b, c] = [sealedReplies(engine, KEY), sealedReplies(engine, KEY), sealedReplies(engine, KEY)];
    const head = headOf();
    const [one] = await written(a, head, 1);
    const { length: before } = calls;
    const records = [recordOf('two', 'm'), recordOf('three')];
    const batch = { ...batchOf(head, 1, records, [[2, text('m')]]), epoch: 1 };
    const key = { ...head, epoch: 1 };
    await b.claim(key, 'bbbbbb', LIVE_MS);
    const { length: claimed } = calls;
    const tags: string[] = [];
    for (const [node, count] of [
      [b, before],
      [c, before],
      [c, before],
      [b, claimed],
      [b, claimed],
    ] as const) {
      await putBack(count);
      expect(await node.claim(key, 'bbbbbb', LIVE_MS)).toMatchObject({ outcome: 'done', parts: 1 });
      expect(await node.append(batch, BOUNDS, LIVE_MS)).toBe('done');
      const told = calls.findLast(({ name }) => name === 'append')?.args[0] as ReplyBatch;
      const boxes = [...told.records, ...told.metadata.map(([, box]) => box)];
      tags.push(...boxes.map((box) => Buffer.from(box.subarray(-16)).toString('hex')));
      for (const reader of [a, b, c, sealedReplies(engine, KEY)]) {
        expect((await reader.read(head.id, 0))?.records).toEqual([one, ...records]);
        expect(await reader.read(head.id, 2)).toMatchObject({
          records: records.slice(1),
          metadata: text('m'),
        });
      }
    }
    expect(new Set(tags)).toHaveLength(5 * 3);
    const { records: sealed = [] } = (await engine.read(head.id, 0)) ?? {};
    expect(sealed.map((each, i) => each.length - [one!, ...records][i]!.length)).toEqual([18, 34, 34]);
  });

  it('are refused if anything of a writer that came later was changed', async () => {
    let change = (pieces: Awaited<ReturnType<ReplyLogs['read']>>) => pieces;
    const { engine } = spied((name, answer) => (name === 'read' ? change(answer as never) : answer));
    const [a, b] = [sealedReplies(engine, KEY), sealedReplies(engine, KEY)];
    const head = headOf();
    await written(a, head, 1);
    await b.claim({ ...head, epoch: 1 }, 'bbbbbb', LIVE_MS);
    const batch = { ...batchOf(head, 1, [recordOf('two', 'm')], [[2, text('m')]]), epoch: 1 };
    await b.append(batch, BOUNDS, LIVE_MS);
    const [pieces, later] = [await engine.read(head.id, 1), await engine.read(head.id, 2)];
    const [record, metadata] = [pieces?.records[0], later?.metadata] as [Uint8Array, Uint8Array];
    const wrong = (bytes: Uint8Array) =>
      Array.from(bytes, (byte, i) => [bytes.with(i, byte ^ 2), bytes.subarray(0, i)]).flat();
    for (const each of wrong(record)) {
      change = () => ({ ...pieces!, records: [each] });
      await expect(b.read(head.id, 1)).rejects.toEqual(REFUSED);
    }
    for (const each of wrong(metadata)) {
      change = () => ({ ...later!, metadata: each });
      await expect(b.read(head.id, 2)).rejects.toEqual(REFUSED);
      await expect(b.claim({ ...head, epoch: 1 }, 'bbbbbb', LIVE_MS)).rejects.toEqual(REFUSED);
    }
  });

  it('have room for every small end', async () => {
    const engine = memoryReplies(Date.now);
    const sealed = sealedReplies(engine, KEY);
    const head = headOf();
    await written(sealed, head);
    const full = { ...BOUNDS, maxReplyBytes: 1, maxOwnerBytes: 1 };
    const small = { failure: new Uint8Array(256), metadata: new Uint8Array(256) };
    expect(endCharge({ at: 0, ...small })).toBe(0);
    const large = { ...small, metadata: new Uint8Array(257) };
    expect(await sealed.end(endOf(head, 3, large), full)).toBe('reply_too_large');
    const entry = { ...full, maxReplyBytes: 3_500, maxOwnerBytes: 3_500 };
    expect(await sealed.end(endOf(head, 3, small), entry)).toBe('done');
  });
});
