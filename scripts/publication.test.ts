import { expect, it } from 'vitest';
import { obstacles, type Publication, withFacts, withPackedLinks } from './publication.js';

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

const readme = { file: 'packages/x/README.md', path: 'README.md' };
const guide = { file: 'docs/guide/g.md', path: 'docs/guide/g.md' };
const packed = [readme, guide, { file: 'docs/a.md', path: 'docs/a.md' }];

it('keeps links to pages of the tarball, and makes those to the repository absolute', () => {
  const page =
    '[a](../a.md#b) [`c` d](../../LICENSE) [e](#f) [g](https://example.com/h) `[i](j)` [k](../../packages/x/README.md)';
  expect(withPackedLinks(page, all, guide, packed)).toBe(
    '[a](../a.md#b) [`c` d](https://example.org/p/blob/main/LICENSE) [e](#f) [g](https://example.com/h) `[i](j)` [k](../../README.md)',
  );
});

it('leaves the text of a link to a repository without an address', () => {
  const page = '[a](../a.md#b), [`c`\nd](../../LICENSE) and ![e](../f.png)';
  expect(withPackedLinks(page, nothing, guide, packed)).toBe('[a](../a.md#b), `c`\nd and e');
});

it('makes all links of a README absolute, which the registry shows, and leads them to the tarball before that', () => {
  expect(withPackedLinks('[a](../../docs/a.md#b)', all, readme, packed)).toBe(
    '[a](https://example.org/p/blob/main/docs/a.md#b)',
  );
  expect(withPackedLinks('[a](../../docs/a.md#b)', nothing, readme, packed)).toBe('[a](docs/a.md#b)');
});
