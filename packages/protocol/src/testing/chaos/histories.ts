import { runHistory } from './history.js';
import { INCIDENTS, type Incident, Tally } from './tally.js';
import { MAX_UNREAD } from './world.js';

/** The outcome of many histories. */
export interface HistoriesOutcome {
  /** Each with the seed that reproduces it. */
  readonly faults: readonly string[];
  readonly tally: Tally;
  /** Bodies that arrived. */
  readonly delivered: number;
  /** Largest sum of unread charges at one end of a session; the limit is {@link MAX_UNREAD}. */
  readonly peakUnread: number;
  /** Incidents that never happened. */
  readonly missing: readonly Incident[];
}

/** Runs the histories of `count` consecutive seeds, beginning with `seed`. */
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
  return { faults, tally, delivered, peakUnread, missing: INCIDENTS.filter((name) => tally.of(name) === 0) };
}
