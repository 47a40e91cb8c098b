import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isFull } from '../../../../scripts/extent.js';
import { createScanner, type Pattern, type Scanner } from './scanner.js';
import { createRandom, mixedText } from './testing/texts.js';

/** The patterns in JavaScript's syntax, without the folding of ſ that only Rust does. */
const CONTRACTION = "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])";
const A = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]';
const B = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
const PATTERNS = {
  cl100k: `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  o200k:
    `[^\\r\\n\\p{L}\\p{N}]?${A}*${B}+(?:${CONTRACTION})?|[^\\r\\n\\p{L}\\p{N}]?${A}+${B}*(?:${CONTRACTION})?` +
    `|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
} as const;

function pieces(scan: Scanner, text: string): string[] {
  const bytes = Buffer.from(text);
  const found: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = scan(bytes, at, bytes.length);
    expect(end).toBeGreaterThan(at);
    found.push(bytes.toString('utf8', at, end));
    at = end;
  }
  return found;
}

describe.each(['cl100k', 'o200k'] as const)('the scanner for %s', (pattern: Pattern) => {
  const scan = createScanner(pattern, 'javascript');
  const regex = new RegExp(PATTERNS[pattern], 'gu');

  it('cuts as the regular expression does, in mixed texts', () => {
    const random = createRandom(41);
    for (let i = 0; i < (isFull ? 20_000 : 5_000); i++) {
      // The expression for o200k folds nothing; the scanner folds as Rust does.
      const text = mixedText(random).replaceAll('ſ', 's');
      const expected = text.match(regex) ?? [];
      const found = pieces(scan, text);
      if (found.join('\u0001') !== expected.join('\u0001'))
        expect(found, JSON.stringify(text)).toEqual(expected);
    }
  });

  it('cuts as the regular expression does, in any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        if (text.includes('ſ')) return;
        expect(pieces(scan, text)).toEqual(text.match(regex) ?? []);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('borders of pieces', () => {
  it.each<[Pattern, string, string[]]>([
    ['cl100k', "don't'LL'Ref", ['don', "'t", "'LL", "'Re", 'f']],
    ['cl100k', "'ſtop", ["'ſ", 'top']],
    ['cl100k', "x'", ['x', "'"]],
    ['cl100k', "'r 'v 'l", ["'r", " '", 'v', " '", 'l']],
    ['cl100k', '   word', ['  ', ' word']],
    ['cl100k', '   \n  \n  word', ['   \n  \n', ' ', ' word']],
    ['cl100k', 'a   ', ['a', '   ']],
    ['cl100k', '12345', ['123', '45']],
    ['cl100k', '!!\n\n/x', ['!!\n\n', '/x']],
    ['cl100k', '\u0085\u0085a', ['\u0085', '\u0085a']],
    ['o200k', "HelloWORLD's", ['Hello', "WORLD's"]],
    ['o200k', "don'ſx", ["don'ſ", 'x']],
    ['o200k', 'ABCdef', ['ABCdef']],
    ['o200k', '\u0301ABC', ['\u0301', 'ABC']],
    ['o200k', '\u0301abc', ['\u0301abc']],
    ['o200k', '!\u0301', ['!\u0301']],
    ['o200k', '!!\u0301/\n/x', ['!!\u0301/\n/', 'x']],
    ['o200k', 'ÀªBC', ['Àª', 'BC']],
  ])('%s: %j', (pattern, text, expected) => {
    expect(pieces(createScanner(pattern, 'rust'), text)).toEqual(expected);
  });

  it('treats U+0085 and U+FEFF as each implementation does', () => {
    const rust = createScanner('cl100k', 'rust');
    const javascript = createScanner('cl100k', 'javascript');
    expect(pieces(rust, '\u00a0\ufeff#')).toEqual(['\u00a0', '\ufeff#']);
    expect(pieces(javascript, '\u00a0\ufeff#')).toEqual(['\u00a0', '\ufeff', '#']);
    expect(pieces(rust, '\u0085\n')).toEqual(['\u0085\n']);
    expect(pieces(javascript, '\u0085\n')).toEqual(['\u0085\n']);
    expect(pieces(rust, '\u0085\t')).toEqual(['\u0085\t']);
    expect(pieces(javascript, '\u0085\t')).toEqual(['\u0085', '\t']);
  });
});

describe('the work of a scan', () => {
  /** Counts how often bytes are read. */
  function looks(pattern: Pattern, text: string): number {
    const scan = createScanner(pattern, 'rust');
    const bytes = Buffer.from(text);
    let count = 0;
    const watched = new Proxy(bytes, {
      get(target, key) {
        count++;
        return Reflect.get(target, key, target);
      },
    });
    for (let at = 0; at < bytes.length; ) at = scan(watched, at, bytes.length);
    return count / bytes.length;
  }

  const N = 3000;
  it.each<[string, string]>([
    ['one letter', 'a'.repeat(N)],
    ['spaces', ' '.repeat(N)],
    ['spaces before a word', `${' '.repeat(N)}x`],
    ['spaces and newlines', `${' \n'.repeat(N)}x`],
    ['capitals after a mark', `\u0301${'A'.repeat(N)}`],
    ['capitals after uncased letters', 'ªA'.repeat(N)],
    ['a lead and capitals', '!A'.repeat(N)],
    ['symbols', '!'.repeat(N)],
    ['apostrophes', "'".repeat(N)],
    ['digits', '1'.repeat(N)],
    ['marks', '\u0301'.repeat(N)],
  ])('is bounded for %s', (_, text) => {
    expect(looks('cl100k', text)).toBeLessThan(8);
    expect(looks('o200k', text)).toBeLessThan(8);
  });
});
