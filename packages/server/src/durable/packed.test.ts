import fc from 'fast-check';
import { expect, it } from 'vitest';
import { errorCode } from '../../../protocol/src/testing/error-code.js';
import { pack, unpack } from './packed.js';

it('unpacks what was packed', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => {
      expect(unpack(pack(bytes))).toEqual(bytes);
    }),
  );
});

it('unpacks up to a mebibyte', () => {
  const largest = new Uint8Array(1024 * 1024);
  expect(unpack(pack(largest))).toHaveLength(largest.length);
  expect(errorCode(() => unpack(pack(new Uint8Array(largest.length + 1))))).toBe('bad_message');
});

it('refuses what was not packed', () => {
  for (const text of ['', 'b', 'sess_one'.repeat(20)])
    expect(errorCode(() => unpack(Buffer.from(text)))).toBe('bad_message');
});

it('reads what was written before, so the dictionary must stay as it is', () => {
  const written = Buffer.from('A9uSn5eqgGy2AsRABYwAUMhLLQcA', 'base64');
  expect(Buffer.from(unpack(written)).toString()).toBe('sess_one TOKEN_NATIVE BROTLI "max_streams":128 new');
});
