import { expect, it } from 'vitest';
import { wordsIn } from './docs/design.js';
import { BOUNDS, sentencesOf, unexplained, userPages } from './pages.js';

const ofThirty = `A ${'word '.repeat(28)}end.`;

it('counts the words of each sentence, with code in backquotes as one', () => {
  const text = `# A heading\n\nOne two\nthree. Four \`five six seven\` eight! ${ofThirty}\n`;
  expect(sentencesOf(text).map(({ line, words }) => [line, words])).toEqual([
    [1, 2],
    [3, 3],
    [3, 3],
    [3, 30],
  ]);
});

it('ends a sentence with its item, cell or paragraph, and counts the text of a link only', () => {
  const text =
    '- one two\n  three\n- four\n\n| five six | seven |\n| --- | --- |\n\n[eight nine](a/b.md#c) – ten\n';
  expect(
    sentencesOf(text)
      .map(({ line, words }) => [line, words])
      .filter(([, words]) => words !== 0),
  ).toEqual([
    [1, 3],
    [3, 1],
    [5, 2],
    [5, 1],
    [8, 3],
  ]);
});

it('does not end a sentence at a dot within a name or a figure', () => {
  expect(sentencesOf('Node 20.20 of node.js and wss://a.b work, e.g. here.')).toHaveLength(1);
  expect(sentencesOf('It works. `code` is a subject. (So is this.) 3 are more.')).toHaveLength(4);
});

it('leaves out code and generated text', () => {
  const text = 'one\n\n```sh\ntwo three\n```\n\n<!-- begin x -->\nfour five\n\nsix\n<!-- end x -->\nseven\n';
  expect(sentencesOf(text).map(({ text }) => text)).toEqual(['one', 'seven']);
  expect(wordsIn(text)).toBe(1 + 3 + 1);
});

it('reads all pages of users and no page of the specification', () => {
  const pages = userPages();
  expect(pages).toContain('README.md');
  expect(pages).toContain('docs/start/quickstart.md');
  expect(pages).toContain('packages/client/README.md');
  expect(pages.filter((file) => /docs\/(?:protocol|adr|design)\//.test(file))).toEqual([]);
  expect(Object.keys(BOUNDS)).toEqual(['docs/MEASUREMENTS.md', 'docs/CLUSTER.md', 'CONTRIBUTING.md']);
});

it('asks for a link, or an explanation, where a page has a term first', () => {
  expect(unexplained('# Engines\n\nAn `engine` keeps it.\n\nThe engine is\n')).toEqual([
    { line: 5, term: 'engine' },
  ]);
  expect(unexplained('[An\nengine](concepts.md#engine) keeps it; the engine is here.')).toEqual([]);
  expect(unexplained('An *engine* is a store. ```\n\n```js\ndrain();\n```\n')).toEqual([]);
  expect(unexplained('[Closing](a/drain.md) and draining')).toEqual([{ line: 1, term: 'drain' }]);
});
