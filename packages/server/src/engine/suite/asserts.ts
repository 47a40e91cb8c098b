import assert from 'node:assert/strict';

/** Values are compared as callers see them: members that are `undefined` count as absent, and a `Buffer` is bytes. */
export function same(actual: unknown, expected: unknown, message?: string): void {
  assert.deepEqual(plain(actual), plain(expected), message);
}

/** As {@link same}, of those members alone that `expected` has. */
export function like(actual: unknown, expected: object, message?: string): void {
  assert.deepEqual(plain(only(actual, expected)), plain(expected), message);
}

export const ok: (value: unknown, message?: string) => asserts value = assert.ok;

/** The call is refused with one of these codes. */
export async function refused(
  call: Promise<unknown>,
  codes: readonly string[] = ['timeout', 'connection_failed'],
): Promise<void> {
  const code = await codeOf(call);
  assert.ok(codes.includes(code), `it ended with ${code}, and not with ${codes.join(' or ')}`);
}

/** The code of the error, or `answered`. */
export function codeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'answered',
    (error: { readonly code?: unknown }) => String(error?.code ?? error),
  );
}

/** The result of work that continues until something else is over. `end` tells the work to stop. */
export async function meanwhile<Result>(
  work: Promise<Result>,
  other: () => Promise<void>,
  end: () => void,
): Promise<Result> {
  work.catch(() => {});
  try {
    await Promise.race([other(), work]);
  } finally {
    end();
  }
  return await work;
}

function only(value: unknown, expected: object): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.keys(expected).map((name) => [name, (value as Record<string, unknown>)[name]]);
  return Object.fromEntries(members);
}

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Uint8Array.from(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Map) return new Map([...value].map(([key, each]) => [key, plain(each)] as const));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(members.map(([name, each]) => [name, plain(each)]));
}
