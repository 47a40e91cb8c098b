import type { AlgorithmStats, DirectionStats, SessionStats } from '@parlance/protocol';

/** What all sessions of a server have sent and received, including those that have ended. */

export interface DirectionTotals {
  wireBytes: number;
  readonly byAlgorithm: Map<string, { messages: number; codedBytes: number; contentBytes: number }>;
}

export class Totals {
  readonly sent: DirectionTotals = { wireBytes: 0, byAlgorithm: new Map() };
  readonly received: DirectionTotals = { wireBytes: 0, byAlgorithm: new Map() };

  add({ sent, received }: Pick<SessionStats, 'sent' | 'received'>): void {
    addDirection(this.sent, sent);
    addDirection(this.received, received);
  }

  /** These totals plus those of open sessions. */
  with(live: Iterable<Pick<SessionStats, 'sent' | 'received'>>): Totals {
    const sum = new Totals();
    for (const direction of ['sent', 'received'] as const) {
      const { wireBytes, byAlgorithm } = this[direction];
      addDirection(sum[direction], { wireBytes, byAlgorithm: Object.fromEntries(byAlgorithm) });
    }
    for (const stats of live) sum.add(stats);
    return sum;
  }
}

function addDirection(
  totals: DirectionTotals,
  { wireBytes, byAlgorithm }: Pick<DirectionStats, 'wireBytes' | 'byAlgorithm'>,
): void {
  totals.wireBytes += wireBytes;
  for (const [name, stats] of Object.entries(byAlgorithm) as [string, AlgorithmStats][]) {
    const total = totals.byAlgorithm.get(name) ?? { messages: 0, codedBytes: 0, contentBytes: 0 };
    total.messages += stats.messages;
    total.codedBytes += stats.codedBytes;
    total.contentBytes += stats.contentBytes;
    totals.byAlgorithm.set(name, total);
  }
}
