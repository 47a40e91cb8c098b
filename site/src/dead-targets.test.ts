import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { deadTargets } from './dead-targets.js';

it('finds links to pages, headings and files that are missing, and no others', () => {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-site-'));
  try {
    mkdirSync(join(folder, 'guide'));
    writeFileSync(
      join(folder, 'index.html'),
      '<h2 id="a-b">A</h2><a href="/guide/x.html#c">x</a> <a href="https://example.org/z">z</a>',
    );
    writeFileSync(
      join(folder, 'guide/x.html'),
      ['<h2 id="c">C</h2>', '/', '/#a-b', '/#missing', '#c', '#d', 'y.html', '../x.md', 'x.md']
        .map((each) => (each.startsWith('<') ? each : `<a class="l" href="${each}">l</a>`))
        .join('\n'),
    );
    writeFileSync(join(folder, 'guide/x.md'), '# X\n');
    expect(deadTargets(folder)).toEqual(
      ['/#missing', '#d', 'y.html', '../x.md'].map((each) => `guide/x.html: ${each} leads nowhere`),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
