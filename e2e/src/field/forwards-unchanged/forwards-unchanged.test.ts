import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CASES } from './cases.js';
import { startUpstream, type Upstream } from './upstream.js';
import { observe, openWays, THROUGH, type Ways } from './ways.js';

/** Whatever an API does, a client over a session sees the same as directly, unless the table names the difference. */

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
    const direct = await observe(ways, 'direct', upstream, each, each.answer);
    const through = await observe(ways, way, upstream, each, each.answer);
    const differences = (each.named ?? []).filter(({ ways: named }) => named.includes(way));
    let expected = direct;
    for (const { says, becomes } of differences) {
      const before = expected;
      expected = { ...expected, ...becomes(direct) };
      // A difference that is none any more must not stay in the table.
      expect(expected).not.toEqual(before);
      expect(PAGE).toContain(says.replace(/\s+/g, ' '));
    }
    expect(direct.heldBack).toEqual([]);
    expect(shown(through)).toEqual(shown(expected));
  });
});

/** A long body is compared by its length and its end, so that a difference can be read. */
function shown<Value extends { readonly body: string }>(value: Value): Value & { readonly length: number } {
  const { body } = value;
  return { ...value, length: body.length, body: body.length > 20_000 ? digest(body) : body };
}

function digest(body: string): string {
  let sum = 0;
  for (let at = 0; at < body.length; at++) sum = (sum * 31 + body.charCodeAt(at)) | 0;
  return `${body.slice(0, 100)}…${body.slice(-100)} ${sum}`;
}
