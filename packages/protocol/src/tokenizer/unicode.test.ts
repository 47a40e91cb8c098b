import { describe, expect, it } from 'vitest';
import {
  classesOfJavaScript,
  classesOfNode,
  classesOfTiktoken,
  isSurrogate,
} from './testing/unicode-classes.js';
import { RUST_EXCEPTIONS, UNICODE_VERSION } from './unicode.gen.js';
import { CLASS_LETTERS, classOf, classTable, type Reading } from './unicode.js';

const LETTERS = new Map(
  Object.entries(CLASS_LETTERS).map(([letter, charClass]) => [charClass as number, letter]),
);

/** Code points for which the table and `expected` differ. */
function differences(reading: Reading, expected: readonly string[]): number[] {
  const table = classTable(reading);
  const found: number[] = [];
  for (let codePoint = 0; codePoint < 0x110000; codePoint++) {
    if (!isSurrogate(codePoint) && LETTERS.get(classOf(table, codePoint)) !== expected[codePoint]) {
      found.push(codePoint);
    }
  }
  return found;
}

describe('the class table', () => {
  const node = classesOfNode();

  it('has the classes that the regular expressions of Node have', () => {
    const found = differences('javascript', classesOfJavaScript(node));
    if (process.versions.unicode === UNICODE_VERSION) {
      expect(found).toEqual([]);
      return;
    }
    // Another Unicode version assigns more or fewer characters, and moves almost none.
    const table = classTable('javascript');
    const moved = found.filter(
      (codePoint) =>
        !/\p{Cn}/u.test(String.fromCodePoint(codePoint)) && classOf(table, codePoint) !== CLASS_LETTERS.O,
    );
    expect(moved.length).toBeLessThan(16);
  });

  it('has the classes that the regular expressions of tiktoken have', () => {
    expect(differences('rust', classesOfTiktoken())).toEqual([]);
  });

  it('differs between the readings only in Unicode version and white space', () => {
    const rust = classTable('rust');
    const javascript = classTable('javascript');
    const differing: number[] = [];
    for (let codePoint = 0; codePoint < 0x110000; codePoint++) {
      if (classOf(rust, codePoint) !== classOf(javascript, codePoint)) differing.push(codePoint);
    }
    const excepted = RUST_EXCEPTIONS.flatMap(([, first, last]) =>
      Array.from({ length: last - first + 1 }, (_, i) => first + i),
    );
    expect(differing).toEqual([...excepted, 0x85, 0xfeff].sort((a, b) => a - b));
  });

  it('keeps ASCII first, where it needs no block number', () => {
    const { classes } = classTable('rust');
    for (let codePoint = 0; codePoint < 0x80; codePoint++) {
      expect(LETTERS.get(classes[codePoint] as number)).toBe(node[codePoint]);
    }
  });

  it('is small', () => {
    const { blocks, classes } = classTable('rust');
    expect(blocks.byteLength + classes.byteLength).toBeLessThan(64 * 1024);
  });
});
