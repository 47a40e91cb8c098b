import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { platform } from '#platform';
import { errorCode } from '../testing/error-code.js';
import { ByteReader, ByteWriter, concatBytes, varintLength } from './bytes.js';

describe('varint', () => {
  it('is written in its shortest form and reads back equal', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        const bytes = new ByteWriter(1).varint(value).finish();
        expect(bytes.length).toBe(varintLength(value));
        const reader = new ByteReader(bytes);
        expect(reader.varint('value')).toBe(value);
        expect(reader.remaining).toBe(0);
      }),
    );
  });

  it('is refused when overlong, cut short, endless or over its maximum', () => {
    const read = (...bytes: number[]) =>
      errorCode(() => new ByteReader(Uint8Array.from(bytes)).varint('n', 300));
    expect(read(0x80, 0x00)).toBe('bad_varint');
    expect(read(0x80)).toBe('truncated');
    expect(read(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)).toBe('bad_varint');
    expect(read(0xac, 0x02)).toBe('none');
    expect(read(0xad, 0x02)).toBe('bad_varint');
  });
});

describe('ByteReader', () => {
  it('reads what a ByteWriter wrote, at any offset of a larger buffer', () => {
    const written = new ByteWriter(1)
      .u8(7)
      .u16(0xbeef)
      .u32(0xdeadbeef)
      .f32(0.5)
      .append(Uint8Array.of(1, 2))
      .finish();
    const reader = new ByteReader(concatBytes([Uint8Array.of(9, 9, 9), written]).subarray(3));
    expect([reader.u8('a'), reader.u16('b'), reader.u32('c'), reader.f32('d')]).toEqual([
      7, 0xbeef, 0xdeadbeef, 0.5,
    ]);
    expect(errorCode(() => reader.expectEnd('all'))).toBe('trailing_bytes');
    expect(reader.take(2, 'e')).toEqual(Uint8Array.of(1, 2));
    reader.expectEnd('all');
    expect(errorCode(() => reader.u8('f'))).toBe('truncated');
  });

  it('refuses a length beyond the end before it allocates', () => {
    expect(errorCode(() => new ByteReader(new Uint8Array(4)).take(2 ** 40, 'body'))).toBe('truncated');
  });
});

describe('platform', () => {
  it('returns different random bytes on each call', () => {
    expect(platform.randomBytes(32)).not.toEqual(platform.randomBytes(32));
  });
});
