import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CASES } from './cases.js';
import { compare } from './compare.js';
import { startUpstream, type Upstream } from './upstream.js';
import { observe, openWays, THROUGH, type Ways } from './ways.js';

/** For any behaviour of an API, a client over a session sees the same as directly, unless the table names the difference. */

const PAGE = readFileSync(new URL('../../../../docs/HTTP.md', import.meta.url), 'utf8').replace(/\s+/g, ' ');

let upstream: Upstream;
let ways: Ways;
beforeAll(async () => {
  upstream = await startUpstream();
  ways = await openWays(upstream);
});
afterAll(async () => {
  await ways[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

describe.each(CASES)('$name', (each) => {
  it.each(THROUGH)('over %s', async (way) => {
    const { through, expected } = await compare(ways, upstream, each, way);
    expect(through).toEqual(expected);
  });
});

describe.each(CASES.filter(({ named = [] }) => named.length > 0))('the difference of $name', (each) => {
  it('is one, and HTTP.md says so', async () => {
    const direct = await observe(ways, 'direct', upstream, each, each.answer);
    for (const { says, becomes } of each.named ?? []) {
      expect({ ...direct, ...becomes(direct) }).not.toEqual(direct);
      expect(PAGE).toContain(says);
    }
  });
});
