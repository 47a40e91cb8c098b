import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MAX_BLANKS, MAX_DELIMITERS, MAX_DEPTH, MAX_LENGTH, segmentsOf } from './markdown-bounds.js';

const isPlain = (text: string) => segmentsOf(text).some((segment) => segment.isPlain);

it('divides a text without losing any of it, and joins what is parsed', () => {
  const soup = fc.string({
    unit: fc.constantFrom('*', '>', '-', '1.', ' ', '\t', 'a', '`', '```', '~~~', '\n', '\n\n'),
  });
  fc.assert(
    fc.property(fc.array(fc.oneof(soup, fc.constant('>'.repeat(MAX_DEPTH + 1)))), (pieces) => {
      const text = pieces.join('\n');
      const segments = segmentsOf(text);
      expect(segments.map((segment) => segment.text).join('')).toBe(text);
      for (const [i, segment] of segments.entries())
        expect(segment.isPlain || segments[i + 1]?.isPlain !== false).toBe(true);
    }),
  );
});

it.each([
  ['length', 'a'.repeat(MAX_LENGTH), 'a'],
  ['delimiters', '*'.repeat(MAX_DELIMITERS - 1), '*'],
  ['lines', 'a\n'.repeat(MAX_DELIMITERS - 1), 'a\na'],
  ['spaces in a row', `a${' '.repeat(MAX_BLANKS)}`, ' a'],
  ['depth of quotes', '>'.repeat(MAX_DEPTH), '>'],
  ['depth of quotes with blanks', '> '.repeat(MAX_DEPTH), '> a'],
  ['depth of lists', '- '.repeat(MAX_DEPTH), '- a'],
  ['depth of numbered lists', '1. '.repeat(MAX_DEPTH), '2) a'],
])('bounds the %s exactly at the limit', (_what, most, more) => {
  expect(isPlain(most)).toBe(false);
  expect(isPlain(most + more)).toBe(true);
});

it('shows as written only what is between blank lines', () => {
  const bad = '***a'.repeat(MAX_DELIMITERS);
  expect(segmentsOf(`# One\n\n${bad}\n\n \n- two\n\n*three*`)).toEqual([
    { text: '# One\n\n', isPlain: false },
    { text: `${bad}\n\n \n`, isPlain: true },
    { text: '- two\n\n*three*', isPlain: false },
  ]);
});

it('does not count code between fences, and nothing else for code', () => {
  const code = '*\n\n'.repeat(MAX_LENGTH);
  for (const [open, close] of [
    ['```js', '```'],
    ['~~~ a ` b', '~~~~'],
  ])
    expect(isPlain(`${open}\n${code}\n${close}\nafter`)).toBe(false);
  // Ends at the fence, does not begin with one, and a fence that is not closed by another one.
  const lines = '*\n'.repeat(MAX_DELIMITERS);
  for (const text of [`\`\`\`\n\`\`\`\n${lines}`, `\`\`\`a\`b\n${lines}`, `    \`\`\`\n${lines}`])
    expect(isPlain(text)).toBe(true);
  expect(isPlain(`\`\`\`\`\n\`\`\`\n~~~\n${lines}`)).toBe(false);
});
