import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cut, pad, widthOf, wrap } from './text-layout.js';

describe('text in columns', () => {
  it('is measured in columns, not in characters', () => {
    expect(widthOf('plain')).toBe(5);
    expect(widthOf('Grüße')).toBe(5);
    expect(widthOf('世界')).toBe(4);
    expect(widthOf('👩‍👩‍👧!')).toBe(3);
    expect(widthOf('e\u0301')).toBe(1);
    expect(pad('世', 4)).toBe('世  ');
  });

  it('is cut with an ellipsis, never inside a character', () => {
    expect(cut('exactly', 7)).toBe('exactly');
    expect(cut('too long', 7)).toBe('too lo…');
    expect(cut('世界地図', 6)).toBe('世界…');
    expect(cut('anything', Number.POSITIVE_INFINITY)).toBe('anything');
  });

  it('breaks between words, and inside words that are too long', () => {
    expect(wrap('a few words here', 7)).toEqual(['a few', 'words', 'here']);
    expect(wrap('unbreakable', 4)).toEqual(['unbr', 'eaka', 'ble']);
    expect(wrap('', 10)).toEqual(['']);
    expect(wrap('a b', Number.POSITIVE_INFINITY)).toEqual(['a b']);
  });

  it('always fits, and loses only spaces', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 2, max: 30 }), (text, width) => {
        const lines = wrap(text, width);
        expect(lines.every((line) => widthOf(line) <= width)).toBe(true);
        expect(lines.join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''));
        expect(widthOf(cut(text, width))).toBeLessThanOrEqual(width);
      }),
    );
  });
});
