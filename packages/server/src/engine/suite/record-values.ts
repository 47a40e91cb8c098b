import type { EngineConnection, SessionWrite } from '../engine.js';

/** Values that tests of records write. */

export const TTL_MS = 60_000;
export const ID = 'sess_aaaaaa0123456789abcd';

export const writeOf = (
  number: number,
  set: Record<string, string>,
  more: Partial<SessionWrite> = {},
): SessionWrite => ({
  ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, ttlMs: TTL_MS, remove: [] },
  set: new Map(Object.entries(set).map(([name, text]) => [name, Buffer.from(text, 'latin1')])),
  ...more,
});

/** By name, in order; a character is a byte. */
export const textsOf = (fields: Iterable<readonly [string, Uint8Array]> = []) =>
  Object.fromEntries(
    [...fields]
      .map(([name, bytes]) => [name, Buffer.from(bytes).toString('latin1')] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );

export const moveTo = (to: string, epoch = 0, from = 'aaaaaa') => ({ from, epoch, to, ttlMs: TTL_MS });

/** All fields, as who claims the session gets them. */
export const claimedFields = async (link: EngineConnection, epoch = 0) =>
  textsOf((await link.claimSession(ID, moveTo('reader', epoch)))?.fields);
