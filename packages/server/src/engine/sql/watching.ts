import { isCount } from '@parlance/protocol/internal';
import { type EngineState, type ReplyChanges, UNKNOWN } from '../logs/logs.js';
import type { ReplyPieces } from '../logs/reply.js';

export interface WatchedReply {
  state(): Promise<EngineState | undefined>;
  read(after: number): Promise<ReplyPieces | undefined>;
  /** As {@link SqlDatabase.watch}: the hint is the number of the last part that was added, or `''` for anything else. */
  hear(onWake: (hint: string | undefined) => void): () => void;
}

/**
 * Tells what is added to a reply: reads it after each wake-up, one read at a time, once for all who follow it at a node. If it
 * cannot be read, they learn only that something has changed.
 *
 * @returns ends it.
 */
export function watchReply(
  { state, read, hear }: WatchedReply,
  onChanges: (news: ReplyChanges) => void,
): () => void {
  /** The number of parts that were reported; `undefined` before the first wake-up. */
  let told: number | undefined;
  let last = 0;
  let isChanged = false;
  let isLooking = false;
  let isOver = false;

  const tell = (news: ReplyChanges): void => {
    if (!isOver) onChanges(news);
  };

  async function look(): Promise<void> {
    const wasChanged = isChanged;
    isChanged = false;
    if (told === undefined) {
      told = (await state())?.parts ?? 0;
      last = told;
      tell(UNKNOWN);
      return;
    }
    const { records = [] } = (await read(told)) ?? {};
    if (records.length === 0) {
      last = told;
      if (wasChanged) tell(UNKNOWN);
      return;
    }
    isChanged ||= wasChanged;
    const from = told;
    told += records.length;
    tell({ from, records });
  }

  async function lookOn(): Promise<void> {
    if (isLooking) return;
    isLooking = true;
    try {
      while (!isOver && (isChanged || last > (told ?? 0))) await look();
    } catch {
      [told, last] = [undefined, 0];
      tell(UNKNOWN);
    } finally {
      isLooking = false;
    }
  }

  const stop = hear((hint) => {
    if (hint === undefined) told = undefined;
    // Every user of a Postgres may send one that no node would.
    const added = Number(hint || Number.NaN);
    if (told === undefined || !isCount(added)) isChanged = true;
    else last = Math.max(last, added);
    void lookOn();
  });
  return () => {
    isOver = true;
    stop();
  };
}
