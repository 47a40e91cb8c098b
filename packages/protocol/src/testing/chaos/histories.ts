import { runHistory } from './history.js';
import { BEFALLS, type Befall, Tally } from './tally.js';
import { MAX_UNREAD } from './world.js';

/** What came of many histories. */
export interface HistoriesOutcome {
  /** With the seeds that run them again. */
  readonly faults: readonly string[];
  readonly tally: Tally;
  /** Bodies that arrived. */
  readonly delivered: number;
  /** Largest sum of charges that waited unread at one end of a session, of {@link MAX_UNREAD} allowed. */
  readonly peakUnread: number;
  /** What is to befall sessions and did not. */
  readonly missing: readonly Befall[];
}

/** Runs the histories of `count` seeds, from `seed` on. */
export function runHistories(seed: number, count: number): HistoriesOutcome {
  const faults: string[] = [];
  const tally = new Tally();
  let delivered = 0;
  let peakUnread = 0;
  for (let each = seed; each < seed + count; each++) {
    const outcome = runHistory(each);
    faults.push(...outcome.faults.map((fault) => `seed ${each}: ${fault}`));
    if (outcome.peakUnread > MAX_UNREAD) faults.push(`seed ${each}: ${outcome.peakUnread} bytes unread`);
    tally.add(outcome.tally);
    delivered += outcome.delivered;
    peakUnread = Math.max(peakUnread, outcome.peakUnread);
  }
  return { faults, tally, delivered, peakUnread, missing: BEFALLS.filter((name) => tally.of(name) === 0) };
}
