import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { headText, readHead } from './redis-head.js';
import type { ReplyHead } from './reply.js';

const time = fc.nat({ max: 2 ** 31 }).map((ms) => ms * 1_000);
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const head: fc.Arbitrary<ReplyHead> = fc.record({
  id: fc.constantFrom('reply_a', `reply_${'x'.repeat(22)}`),
  owner: fc.string({ unit: 'binary', maxLength: 30 }),
  principal: maybe(fc.string({ unit: 'binary', maxLength: 30 })),
  name: maybe(fc.constantFrom('chat 42', 'é', 'x'.repeat(128))),
  share: maybe(fc.json({ maxDepth: 1 }).filter((json) => json.length <= 1_024)),
  encoding: maybe(fc.constantFrom('CL100K_BASE', 'O200K_BASE')),
  ttlMs: time,
  startedAt: time,
});
const malformed = expect.objectContaining({ code: 'bad_message' });
const read = (value: unknown) => readHead(Buffer.from(JSON.stringify(value)));

describe('the head of a kept reply', () => {
  it('is read as it was', () => {
    fc.assert(
      fc.property(head, (given) => {
        expect(readHead(Buffer.from(headText(given)))).toEqual(given);
      }),
    );
  });

  it('is refused with a typed error if it is damaged', () => {
    fc.assert(
      fc.property(head, fc.nat(), fc.jsonValue(), (given, at, value) => {
        const fields = JSON.parse(headText(given)) as unknown[];
        fields[at % fields.length] = value;
        try {
          read(fields);
        } catch (error) {
          expect(error).toEqual(malformed);
        }
      }),
    );
    expect(() => readHead(Buffer.from('['))).toThrow(malformed);
  });

  it.each([
    ['no list', {}],
    ['an ID that is none', ['chat', 'o', null, null, null, null, 1, 1]],
    ['a name that none may have', ['reply_a', 'o', null, 'reply_b', null, null, 1, 1]],
    ['an unknown encoding', ['reply_a', 'o', null, null, null, 'X', 1, 1]],
    ['a share that is too long', ['reply_a', 'o', null, null, 'x'.repeat(1_025), null, 1, 1]],
    ['a time that is none', ['reply_a', 'o', null, null, null, null, -1, 1]],
  ])('is refused if it has %s', (_what, value) => {
    expect(() => read(value)).toThrow(malformed);
  });
});
