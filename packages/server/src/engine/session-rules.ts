import type { SessionRecord, SessionWrite, SessionWritten } from './engine.js';

/** Rules of all engines that keep sessions themselves. */

/** How long it is known that a session is over, in milliseconds. */
export const RELEASED_MS = 600_000;

export const isOf = (record: SessionRecord, owner: string, epoch: number): boolean =>
  record.owner === owner && record.epoch === epoch;

/**
 * Why a write is not taken.
 *
 * @param found with the number of the last write, and the bytes of its fields.
 */
export function refusalOf(
  found: (SessionRecord & { readonly written: number; readonly bytes: number }) | undefined,
  { owner, epoch, isFirst, replaces, after = 0 }: SessionWrite,
): SessionWritten | undefined {
  const isForeign = found !== undefined && !isOf(found, owner, epoch);
  if (replaces === true) return isForeign && found.epoch >= epoch ? 'fenced' : undefined;
  if (isForeign) return 'fenced';
  if (!isFirst && (found === undefined || (found.written === 0 && found.bytes === 0))) return 'gone';
  return (found?.written ?? 0) < after ? 'behind' : undefined;
}
