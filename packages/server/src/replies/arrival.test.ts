import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeItems, entryFields, readEntry, readJson } from '../cluster/replies/replies-message.js';
import { Arrival, type ArrivalHost } from './arrival.js';
import type { ReplyEntry } from './log.js';
import { MemoryReplyLog } from './memory-log.js';

const MIB = 1024 * 1024;
const BOUNDS = { maxReplies: 10, maxReplyBytes: MIB, maxOwnerBytes: 4 * MIB, maxBytes: 4 * MIB };
const bytes = (maxLength: number) => fc.uint8Array({ minLength: 1, maxLength });

function entryOf(change: Partial<ReplyEntry> = {}): ReplyEntry {
  const head = { id: 'reply_a', owner: 'o', principal: 'p', name: 'n', share: '1', encoding: undefined };
  const end = { at: 5, failure: undefined, metadata: undefined };
  return { ...head, ttlMs: 1_000, startedAt: 1, parts: 0, end, ...change };
}

function host(change: Partial<ArrivalHost> = {}, bounds = BOUNDS) {
  const log = new MemoryReplyLog(bounds);
  const announced: string[] = [];
  const reserved = { now: 0, most: 0 };
  const arrival = new Arrival({
    readEntry: (json) => readEntry(readJson(json)),
    begin: ({ parts: _parts, end: _end, ...head }) => log.receive(head),
    announce: async ({ id }) => {
      expect(log.has(id)).toBe(false);
      announced.push(id);
    },
    onTaken: () => {},
    reserve: (size) => {
      reserved.now += size;
      reserved.most = Math.max(reserved.most, reserved.now);
      return {
        release() {
          reserved.now -= size;
        },
      };
    },
    maxItem: MIB,
    ...change,
  });
  return { log, announced, arrival, reserved };
}

const streamOf = (entry: ReplyEntry, items: readonly Uint8Array[]) =>
  encodeItems([Buffer.from(JSON.stringify(entryFields(entry))), ...items]);
const NOTHING = new Uint8Array(0);

describe('a reply that arrives', () => {
  it('takes memory for a long item and for its end, as long as it is not whole', async () => {
    const { arrival, reserved } = host();
    const end = { at: 5, failure: new Uint8Array(500), metadata: undefined };
    const stream = streamOf(entryOf({ parts: 1, end }), [new Uint8Array(300), new Uint8Array(500), NOTHING]);
    const seen = new Set<number>();
    for (const byte of stream) {
      arrival.push(Uint8Array.of(byte));
      seen.add(reserved.now);
    }
    const head = JSON.stringify(entryFields(entryOf({ parts: 1, end }))).length;
    expect([...seen]).toEqual([head, 0, 300, 500]);
    expect(reserved.now).toBe(500);
    await arrival.finish();
    expect(reserved.now).toBe(0);
  });

  it('is what was sent, however its bytes are split', async () => {
    const records = fc.array(
      bytes(300).map((record) => Uint8Array.of(0, ...record)),
      { maxLength: 40 },
    );
    await fc.assert(
      fc.asyncProperty(
        records,
        fc.option(bytes(20)),
        fc.array(fc.nat({ max: 400 })),
        async (parts, failure, cuts) => {
          const { log, announced, arrival, reserved } = host();
          const end = { at: 5, failure: failure ?? undefined, metadata: undefined };
          const entry = entryOf({ parts: parts.length, end });
          const stream = streamOf(entry, [...parts, failure ?? NOTHING, NOTHING]);
          let at = 0;
          for (const cut of [...cuts, Infinity]) {
            arrival.push(stream.slice(at, at + cut));
            expect(await log.find({ id: 'reply_a' })).toBeUndefined();
            at += cut;
          }
          await arrival.finish();
          expect(announced).toEqual(['reply_a']);
          expect(reserved.now).toBe(0);
          const got: Uint8Array[] = [];
          for (;;) {
            const pieces = log.read('reply_a', got.length);
            got.push(...(pieces?.records ?? []));
            if (pieces?.end === undefined) continue;
            expect(pieces.end).toEqual(end);
            break;
          }
          expect(got).toEqual(parts);
          expect(log.find({ owner: 'o', name: 'n' })?.id).toBe('reply_a');
          expect([...log.list('other')].map(({ id }) => id)).toEqual(['reply_a']);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('that is damaged, too short or too long is refused and leaves nothing', async () => {
    const parts = [Uint8Array.of(0, 1, 2), Uint8Array.of(0, 3)];
    const stream = streamOf(entryOf({ parts: 2 }), [...parts, NOTHING, NOTHING]);
    await fc.assert(
      fc.asyncProperty(
        fc.nat(),
        fc.nat({ max: 255 }),
        fc.integer({ min: -9, max: 9 }),
        async (at, byte, more) => {
          const { log, arrival } = host();
          const damaged = Uint8Array.from({ length: stream.length + more }, (_, i) => stream[i] ?? 7);
          damaged[at % damaged.length] = byte;
          try {
            arrival.push(damaged);
            await arrival.finish();
            expect(log.usage.replies).toBe(1);
          } catch (error) {
            expect(error).toMatchObject({ code: expect.stringMatching(/^(bad_|reply_too_large|truncated)/) });
            arrival.abandon();
            expect(log.usage).toEqual({ replies: 0, bytes: 0 });
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('has to fit, to its last byte', async () => {
    const parts = Array.from({ length: 20 }, () => new Uint8Array(1_000));
    const stream = streamOf(entryOf({ parts: 20 }), [...parts, NOTHING, NOTHING]);
    const taken = async (maxReplyBytes: number) => {
      const { log, arrival } = host({}, { ...BOUNDS, maxReplyBytes });
      arrival.push(stream);
      await arrival.finish();
      return log.usage.bytes;
    };
    // The buffer of a reply that still grows has room for more.
    let needed = 20_000;
    for (; ; needed++) {
      try {
        await taken(needed);
        break;
      } catch (error) {
        expect(error).toMatchObject({ code: 'reply_too_large' });
      }
    }
    expect(await taken(needed)).toBeLessThanOrEqual(needed);
    await expect(taken(needed - 1)).rejects.toMatchObject({ code: 'reply_too_large' });
  });

  it('has no item of more bytes than it may have, and reserves memory for one that is not whole', () => {
    const item = new Uint8Array(100);
    const small = host({ maxItem: 100 });
    small.arrival.push(streamOf(entryOf({ parts: 1 }), [item]).slice(0, -1));
    expect(small.reserved.now).toBe(100);
    small.arrival.abandon();
    expect(small.reserved.now).toBe(0);
    const large = host({ maxItem: 99 });
    expect(() => large.arrival.push(streamOf(entryOf({ parts: 1 }), [item]).slice(0, -1))).toThrow(
      expect.objectContaining({ code: 'reply_too_large' }),
    );
  });

  it('that cannot be announced is not taken', async () => {
    const error = new Error('the engine is gone');
    const { log, arrival } = host({ announce: () => Promise.reject(error) });
    arrival.push(streamOf(entryOf(), [NOTHING, NOTHING]));
    await expect(arrival.finish()).rejects.toBe(error);
    arrival.abandon();
    expect(log.usage).toEqual({ replies: 0, bytes: 0 });
  });

  it('that is here already is announced again', async () => {
    const { announced, arrival } = host({ begin: () => undefined });
    arrival.push(streamOf(entryOf({ parts: 1 }), [Uint8Array.of(0, 1), NOTHING, NOTHING]));
    await arrival.finish();
    expect(announced).toEqual(['reply_a']);
  });
});
