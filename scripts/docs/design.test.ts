import { describe, expect, it } from 'vitest';
import { MAX_WORDS, sectionsOfRecords, tooLong, wordsIn } from './design.js';

describe('pages about design', () => {
  it('have so many words at most', () => {
    const words = Array.from({ length: MAX_WORDS }, () => 'word');
    expect(tooLong('page.md', words.join(' '))).toEqual([]);
    expect(tooLong('page.md', [...words, 'word'].join('\n'))).toEqual([
      `page.md: ${MAX_WORDS + 1} words, at most ${MAX_WORDS} are allowed`,
    ]);
  });

  it('do not count bars of tables, marks of lists and generated tables', () => {
    const text = [
      '| a | b |',
      '| --- | --- |',
      '- `c`',
      '<!-- begin t -->',
      '| d |',
      '<!-- end t -->',
      'e',
    ].join('\n');
    expect(wordsIn(text)).toBe(4);
  });

  it('say which records their sections have', () => {
    const page = (name: string, ...sections: [heading: string, records: string][]) =>
      [
        `docs/design/${name}.md`,
        `# Page ${name}\n\nText.\n${sections.map(([heading, records]) => `\n## ${heading}\n\n${records}\n`).join('')}`,
      ] as const;
    expect(
      sectionsOfRecords([
        page('one', ['A `name`, and more', 'Records: 12, 3.'], ['New', 'Text.']),
        page('two', ['Other', 'Records: 4.']),
      ]),
    ).toEqual([
      '| 3 | [Page one: A `name`, and more](one.md#a-name-and-more) |',
      '| 4 | [Page two: Other](two.md#other) |',
      '| 12 | [Page one: A `name`, and more](one.md#a-name-and-more) |',
    ]);
    const twice = [page('one', ['A', 'Records: 1.'], ['B', 'Records: 1, 2.'])];
    expect(() => sectionsOfRecords(twice)).toThrow('record 1 has a section already');
  });
});
