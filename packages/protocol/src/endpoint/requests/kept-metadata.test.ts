import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeMetadata, encodeMetadata, type Metadata } from '../messages/metadata.js';
import { encodeKept, KEPT, readKept } from './kept-metadata.js';

const read = (entry: unknown) => readKept({ [KEPT]: entry } as unknown as Metadata);

describe('the entry that names a kept reply', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.nat({ max: 2 ** 40 }),
        fc.option(fc.uint8Array({ maxLength: 3, minLength: 1 }), { nil: undefined }),
        (id, after, held) => {
          const kept = { id, after, held };
          expect(readKept(decodeMetadata(encodeKept(kept), 8))).toEqual(kept);
        },
      ),
    );
  });

  it.each([
    [undefined],
    [null],
    ['reply_a'],
    [[]],
    [{}],
    [{ id: 7 }],
    [{ id: 'a', after: -1 }],
    [{ id: 'a', after: 0.5 }],
    [{ id: 'a', after: '1' }],
    [{ id: 'a', after: Number.MAX_SAFE_INTEGER + 1 }],
    [Object.create({ id: 'a' })],
  ])('of another form names none: %o', (entry) => {
    expect(read(entry)).toBeUndefined();
  });

  it.each([[[1, 2, 3, 4]], [[256]], [[-1]], [[0.5]], ['abc'], [{ length: 1 }]])(
    'has no bytes held if they are %o',
    (held) => {
      expect(read({ id: 'a', held })).toEqual({ id: 'a', after: 0, held: undefined });
    },
  );

  it('of any form does not make reading fail, and holds at most three bytes', () => {
    fc.assert(
      fc.property(fc.anything(), (entry) => {
        const kept = read(entry);
        expect(kept?.held?.length ?? 0).toBeLessThanOrEqual(3);
        if (kept !== undefined) expect(encodeMetadata({ after: kept.after }, 100)).toBeDefined();
      }),
      { numRuns: 1_000 },
    );
    const entries = fc.record({ id: fc.anything(), after: fc.anything(), held: fc.anything() });
    fc.assert(
      fc.property(entries, (entry) => (read(entry)?.held?.length ?? 0) <= 3),
      { numRuns: 1_000 },
    );
  });
});
