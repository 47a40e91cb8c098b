import fc from 'fast-check';
import { expect, it } from 'vitest';
import { utf8Length } from './text.js';

it('utf8Length counts the bytes of any well-formed text, however long', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat(3000), (text, times) => {
      const long = text.repeat(times);
      expect(utf8Length(long)).toBe(Buffer.byteLength(long));
    }),
  );
});
