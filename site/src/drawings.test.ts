import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { drawingOf } from './drawings.js';

const FOLDER = new URL('../../docs/protocol/', import.meta.url);
const SOURCES = readdirSync(FOLDER).flatMap((name) => {
  const text = readFileSync(new URL(name, FOLDER), 'utf8');
  return [...text.matchAll(/^```mermaid\n([\s\S]*?)^```$/gm)].map(([, source = '']) => ({ name, source }));
});
const textsOf = (svg: string) => [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map(([, text]) => text);

describe('drawings', () => {
  it('has every word of the documents, and loads nothing', () => {
    expect(SOURCES.length).toBeGreaterThanOrEqual(4);
    for (const { name, source } of SOURCES) {
      const svg = drawingOf(source, 'a');
      const labels = [...source.matchAll(/: (.+)$/gm)].map(([, label]) => label).slice(1);
      expect(textsOf(svg), name).toEqual(expect.arrayContaining(labels));
      expect(svg.replaceAll(/url\(#[\w-]+\)/g, ''), name).not.toMatch(/<style|url\(|https?:/);
    }
  });

  it('gives markers names of their own in each drawing', () => {
    for (const { source } of SOURCES) {
      const svg = drawingOf(source, 'one');
      const ids = [...svg.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
      expect(ids.every((id) => id?.startsWith('one-'))).toBe(true);
      const used = [...svg.matchAll(/url\(#([^)]*)\)/g)].map(([, id]) => id);
      expect(ids).toEqual(expect.arrayContaining(used));
    }
  });

  it('draws a lost message with a cross and no head, and escapes what it says', () => {
    const lost =
      'sequenceDiagram\n  accDescr: "a" < b\n  participant A as a\n  participant B as b\n  A--xB: <b>\n';
    const svg = drawingOf(lost, 'a');
    expect(svg).toContain('class="lost"');
    expect(svg).not.toContain('class="head"');
    expect(svg).toContain('aria-label="&quot;a&quot; &lt; b"');
    expect(textsOf(svg)).toContain('&lt;b>');
  });

  it.each([
    ['sequenceDiagram\n  participant A as a\n', 'without accDescr'],
    ['sequenceDiagram\n  accDescr: a\n  loop forever\n', 'is not known: loop forever'],
    ['sequenceDiagram\n  accDescr: a\n  participant A as a\n  A->>B: x\n', 'no participant B'],
  ])('refuses %j', (source, why) => {
    expect(() => drawingOf(source, 'a')).toThrow(why);
  });
});
