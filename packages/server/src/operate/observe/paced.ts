import type { Clock } from '@parlance/protocol/internal';

/** The rest of the time is for everything else. */
const MAX_SHARE = 0.1;

/**
 * Makes a text that may be asked for without end: making it takes a tenth of the time at most. Until then, and while it is made,
 * everybody gets the same one.
 */
export function paced(make: () => Promise<string>, clock: Pick<Clock, 'now'>): () => Promise<string> {
  let text: Promise<string> | undefined;
  let freshUntil = 0;
  return () => {
    const start = clock.now();
    if (text !== undefined && start < freshUntil) return text;
    freshUntil = Number.POSITIVE_INFINITY;
    text = make().finally(() => {
      const end = clock.now();
      freshUntil = end + (end - start) * (1 / MAX_SHARE - 1);
    });
    return text;
  };
}
