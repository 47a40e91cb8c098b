import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import type { EncodingName } from '../constants.js';
import type { Encoding } from './encoding.js';
import { loadEncoding } from './load.js';
import { ENCODING_NAMES } from './testing/loaded-table.js';

interface Vectors {
  readonly count: number;
  readonly cases: readonly (Readonly<Record<EncodingName, number[] | undefined>> & {
    readonly text: string;
  })[];
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../../conformance/vectors/tokenizer.json', import.meta.url), 'utf8'),
) as Vectors;

describe.each(ENCODING_NAMES)('tokenizer vectors in %s', (name) => {
  const cases = vectors.cases.filter((vector) => vector[name] !== undefined);
  let encoding: Encoding;
  beforeAll(async () => {
    encoding = await loadEncoding(name);
  });

  it('are there', () => {
    expect(vectors.cases.length).toBe(vectors.count);
    expect(cases.length).toBeGreaterThan(500);
  });

  it.each(cases.map((vector) => [vector.text.slice(0, 40), vector] as const))('%j', (_, vector) => {
    expect([...encoding.encode(vector.text)]).toEqual(vector[name]);
    expect(encoding.decode(vector[name] as number[])).toBe(vector.text);
  });
});
