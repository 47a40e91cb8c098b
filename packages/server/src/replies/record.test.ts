import { BodyCodec, type CodedBody } from '@parlance/protocol';
import { isSized } from '@parlance/protocol/internal';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeRecord, encodeRecord, isTokens, metadataOf } from './record.js';

const codecs = fc.constantFrom(...Object.values(BodyCodec).filter((codec) => codec !== BodyCodec.CONTEXT));
const bytes = fc.uint8Array({ maxLength: 300 });

describe('a recorded part', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(
        codecs,
        bytes,
        fc.option(bytes, { nil: undefined }),
        fc.nat({ max: 2 ** 40 }),
        fc.boolean(),
        (codec, content, metadata, originalLength, secret) => {
          const body: CodedBody = { codec, bytes: content, originalLength, secret, metadata: undefined };
          const record = encodeRecord(body, metadata);
          expect(decodeRecord(record)).toEqual({
            codec,
            bytes: content,
            originalLength: isSized(codec) ? originalLength : content.length,
            secret,
            metadata,
          });
          expect(metadataOf(record)).toEqual(metadata);
          expect(isTokens(record)).toBe(codec === BodyCodec.TOKEN_NATIVE);
          // Neither more than what is there, nor a reference to it.
          expect(record.length).toBeLessThanOrEqual(content.length + (metadata?.length ?? 0) + 12);
          expect(record.buffer).not.toBe(content.buffer);
        },
      ),
    );
  });

  it('takes one byte in addition to its content if it has neither metadata nor a length', () => {
    const body: CodedBody = {
      codec: BodyCodec.TOKEN_NATIVE,
      bytes: Uint8Array.of(1, 2, 3),
      originalLength: 12,
      secret: false,
      metadata: undefined,
    };
    expect(encodeRecord(body, undefined)).toEqual(Uint8Array.of(1, 1, 2, 3));
  });

  it('that is damaged gets a stated error, or is a part of at most its own size', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (damaged) => {
        try {
          const { bytes: content, metadata } = decodeRecord(damaged);
          expect(content.length + (metadata?.length ?? 0)).toBeLessThanOrEqual(damaged.length);
        } catch (error) {
          expect(error).toMatchObject({ code: expect.stringMatching(/^(truncated|bad_varint)$/) });
        }
      }),
      { numRuns: 2_000 },
    );
    expect(() => decodeRecord(Uint8Array.of(0x20, 5, 1))).toThrow(
      expect.objectContaining({ code: 'truncated' }),
    );
    expect(() => decodeRecord(Uint8Array.of(0x20, 0x80, 0))).toThrow(
      expect.objectContaining({ code: 'bad_varint' }),
    );
  });
});
