import type { Fields } from './bodies.js';
import type { Call } from './calls.js';
import { must } from './deviation.js';
import { jsonIn, mapIn, textsIn } from './members.js';
import { responseOf, type Session } from './session.js';

/** The peer's account of a request of its own, which `ask` or `follow` has made it send. */
export interface Told {
  readonly parts: readonly string[];
  readonly error: Fields | undefined;
}

/** The outcomes of the requests of `ask`, of which there is at least one. */
export async function toldBy(session: Session, call: Call): Promise<readonly [Told, ...Told[]]> {
  const body = responseOf(await session.over(call));
  const list = jsonIn(body);
  must(
    Array.isArray(list) && list.length > 0,
    'the peer does not tell what came of its requests',
    body.content,
  );
  return list.map((each) => toldIn({ each }, body.content)) as [Told, ...Told[]];
}

/** The outcome of the request of `follow`. */
export async function toldOfOne(session: Session, call: Call): Promise<Told> {
  const body = responseOf(await session.over(call));
  return toldIn({ each: jsonIn(body) }, body.content);
}

function toldIn(list: { readonly each: unknown }, bytes: Uint8Array): Told {
  const told = mapIn(list, 'each', {}, bytes);
  const error = (told['error'] ?? undefined) === undefined ? undefined : mapIn(told, 'error', {}, bytes);
  return { parts: textsIn(told, 'parts', [], bytes), error };
}
