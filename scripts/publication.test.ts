import { expect, it } from 'vitest';
import { obstacles, type Publication, withAbsoluteLinks, withFacts } from './publication.js';

const nothing: Publication = { author: '', bugs: '', homepage: '', repository: '' };
const all: Publication = {
  author: 'A <a@example.org>',
  bugs: 'https://example.org/p/issues',
  homepage: 'https://example.org',
  repository: 'https://example.org/p',
};

it('names each fact and version that is missing', () => {
  expect(obstacles(nothing, [])).toEqual(
    ['author', 'bugs', 'homepage', 'repository'].map((name) => `scripts/publication.json has no ${name}`),
  );
  expect(obstacles(all, [{ name: 'x', version: '0.0.0' }])).toEqual([
    'x has no version: run `npm run changeset -- version`',
  ]);
  expect(obstacles(all, [{ name: 'x', version: '0.1.0' }])).toEqual([]);
});

it('writes what is known into a manifest, and nothing in its place', () => {
  expect(withFacts({ name: 'x' }, nothing, 'packages/x')).toEqual({ name: 'x' });
  expect(withFacts({ name: 'x' }, all, 'packages/x')).toEqual({
    name: 'x',
    author: all.author,
    bugs: all.bugs,
    homepage: all.homepage,
    repository: { type: 'git', url: 'git+https://example.org/p.git', directory: 'packages/x' },
  });
});

it('makes links to the repository absolute, and leaves those elsewhere', () => {
  const page = '[a](../../docs/a.md#b) [c](#d) [e](https://example.com/f) [g](CHANGELOG.md)';
  expect(withAbsoluteLinks(page, nothing, 'packages/x')).toBe(page);
  expect(withAbsoluteLinks(page, all, 'packages/x')).toBe(
    '[a](https://example.org/p/blob/main/docs/a.md#b) [c](#d) [e](https://example.com/f) ' +
      '[g](https://example.org/p/blob/main/packages/x/CHANGELOG.md)',
  );
});
