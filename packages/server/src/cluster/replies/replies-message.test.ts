import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ReplyEntry, ReplyPieces } from '../../replies/log.js';
import { decodePeerMessage, encodePeerMessage } from '../peer-message.js';
import {
  encodeItems,
  encodePieces,
  entryFields,
  readEntry,
  readJson,
  readPieces,
} from './replies-message.js';

const bytes = fc.uint8Array({ maxLength: 40 });
const time = fc.nat({ max: 2 ** 31 }).map((ms) => ms * 1_000);
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const end = fc.record({ at: time, failure: maybe(bytes), metadata: maybe(bytes) });
const pieces: fc.Arbitrary<ReplyPieces> = fc.record({
  records: fc.array(
    bytes.filter(({ length }) => length > 0),
    { maxLength: 20 },
  ),
  metadata: maybe(bytes),
  end: maybe(end),
});
const entry: fc.Arbitrary<ReplyEntry> = fc.record({
  id: fc.constantFrom('reply_a', `reply_${'x'.repeat(22)}`),
  owner: fc.string({ unit: 'binary', maxLength: 30 }),
  principal: maybe(fc.string({ unit: 'binary', maxLength: 30 })),
  name: maybe(fc.constantFrom('chat 42', 'é', 'x'.repeat(128))),
  share: maybe(fc.json({ maxDepth: 1 }).filter((json) => json.length <= 1_024)),
  encoding: maybe(fc.constantFrom('CL100K_BASE', 'O200K_BASE')),
  ttlMs: time,
  startedAt: time,
  parts: fc.nat(),
  end: maybe(end),
});

/** As another node gets it. */
function crossed<Fields extends readonly unknown[]>(fields: Fields, content: Uint8Array) {
  return decodePeerMessage(encodePeerMessage('done', fields, content));
}

describe('a message about kept replies', () => {
  it('brings entries as they were, with when and whether they have failed', () => {
    fc.assert(
      fc.property(entry, (given) => {
        const got = readEntry(readJson(Buffer.from(JSON.stringify(entryFields(given)))));
        const { end: ending, ...rest } = given;
        expect(got).toEqual({ ...rest, end: got.end });
        expect(got.end?.at).toBe(ending?.at);
        expect(got.end?.failure !== undefined).toBe(ending?.failure !== undefined);
      }),
    );
  });

  it('brings parts, metadata and the end as they were', () => {
    fc.assert(
      fc.property(pieces, (given) => {
        const { fields, bytes: content } = encodePieces(given);
        const message = crossed(fields, content);
        expect(readPieces(message.fields, message.bytes)).toEqual(given);
      }),
    );
  });

  it('is refused with a typed error if it is damaged', () => {
    const typed = expect.objectContaining({
      code: expect.stringMatching(/^(bad_message|truncated|bad_varint)$/),
    });
    const refuses = (read: () => unknown) => {
      try {
        read();
      } catch (error) {
        expect(error).toEqual(typed);
      }
    };
    fc.assert(
      fc.property(
        pieces,
        fc.nat(),
        fc.nat({ max: 255 }),
        fc.array(fc.jsonValue()),
        (given, at, byte, wrong) => {
          const { fields, bytes: content } = encodePieces(given);
          const damaged = Uint8Array.from(content, (each, i) => (i === at % content.length ? byte : each));
          refuses(() => readPieces(fields, damaged));
          refuses(() => readPieces(wrong, content));
          expect(() => readPieces(fields, Uint8Array.of(...content, 0))).toThrow(typed);
        },
      ),
    );
    fc.assert(
      fc.property(entry, fc.nat(), fc.jsonValue(), (given, at, value) => {
        const fields: unknown[] = [...entryFields(given)];
        fields[at % fields.length] = value;
        refuses(() => readEntry(fields));
      }),
    );
  });

  it.each([
    ['no list', {}],
    ['an ID that is none', ['chat', 'o', null, null, null, null, 1, 1, 0, null, false]],
    ['a name that none may have', ['reply_a', 'o', null, 'reply_b', null, null, 1, 1, 0, null, false]],
    ['an unknown encoding', ['reply_a', 'o', null, null, null, 'X', 1, 1, 0, null, false]],
    ['a share that is too long', ['reply_a', 'o', null, null, 'x'.repeat(1_025), null, 1, 1, 0, null, false]],
    ['half a part', ['reply_a', 'o', null, null, null, null, 1, 1, 0.5, null, false]],
    ['a time that is none', ['reply_a', 'o', null, null, null, null, -1, 1, 0, null, false]],
  ])('has no entry with %s', (_what, value) => {
    expect(() => readEntry(value)).toThrow(expect.objectContaining({ code: 'bad_message' }));
  });

  it('has no list of more parts than bytes', () => {
    const content = encodeItems([new Uint8Array(0), new Uint8Array(0)]);
    expect(readPieces([2, false, null, false, false], content).records).toHaveLength(2);
    expect(() => readPieces([3, false, null, false, false], content)).toThrow(
      expect.objectContaining({ code: 'bad_message' }),
    );
    expect(() => readPieces([2 ** 40, false, null, false, false], content)).toThrow(
      expect.objectContaining({ code: 'bad_message' }),
    );
  });
});
