import { CASES, type Case } from './cases.js';
import { startUpstream, type Upstream } from './upstream.js';
import { type Observed, observe, openWays, THROUGH, type Through, type Ways } from './ways.js';

/** The view of a client over a session, and the expected one: the same as directly, but for the differences of the case. */
export interface Compared {
  readonly through: Shown;
  readonly expected: Shown;
}

/** A long body is compared by its length, its ends and a sum, so that a difference can be read. */
export type Shown = Observed & { readonly length: number };

export async function compare(ways: Ways, upstream: Upstream, each: Case, way: Through): Promise<Compared> {
  const direct = await observe(ways, 'direct', upstream, each, each.answer);
  const through = await observe(ways, way, upstream, each, each.answer);
  return { through: shown(through), expected: expectedOf(direct, each, way) };
}

/** What a client should see over a session. */
export function expectedOf(direct: Observed, each: Case, way: Through): Shown {
  let expected = direct;
  for (const { ways: named, becomes } of each.named ?? []) {
    if (named.includes(way)) expected = { ...expected, ...becomes(direct) };
  }
  return shown({ ...expected, heldBack: [] });
}

/** All cases of the table whose result is another one than it should be. */
export async function compareAll(): Promise<(Compared & { readonly name: string; readonly way: Through })[]> {
  await using upstream = await startUpstream();
  await using ways = await openWays(upstream);
  const differences = [];
  for (const each of CASES) {
    for (const way of THROUGH) {
      const compared = await compare(ways, upstream, each, way);
      if (JSON.stringify(compared.through) === JSON.stringify(compared.expected)) continue;
      differences.push({ name: each.name, way, ...compared });
    }
  }
  return differences;
}

export function shown(value: Observed): Shown {
  const { body, headers } = value;
  const sorted = Object.fromEntries(Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1)));
  return { ...value, headers: sorted, length: body.length, body: body.length > 20_000 ? digest(body) : body };
}

function digest(body: string): string {
  let sum = 0;
  for (let at = 0; at < body.length; at++) sum = (sum * 31 + body.charCodeAt(at)) | 0;
  return `${body.slice(0, 100)}…${body.slice(-100)} ${sum}`;
}
