import type { AlgorithmStats, BodyCounts, DirectionStats, SessionStats } from '@parlance/protocol';

/** What all sessions of a server have sent and received, including those that have ended. */

type ByKind = Pick<BodyCounts, 'messages' | 'requests' | 'parts'>;

/** A session as far as it is counted. */
export interface Counted {
  stats(): Pick<SessionStats, 'sent' | 'received'>;
  /** What its bodies were; `undefined` without any. */
  bodies(direction: 'sent' | 'received'): ByKind | undefined;
}

export interface DirectionTotals {
  wireBytes: number;
  readonly byKind: { -readonly [Kind in keyof ByKind]: number };
  readonly byAlgorithm: Map<string, { messages: number; codedBytes: number; contentBytes: number }>;
}

export class Totals {
  readonly sent = nothing();
  readonly received = nothing();

  add(session: Counted): void {
    const stats = session.stats();
    for (const direction of DIRECTIONS) {
      addDirection(this[direction], stats[direction]);
      addKinds(this[direction], session.bodies(direction));
    }
  }

  /** These totals plus those of open sessions. */
  with(live: Iterable<Counted>): Totals {
    const sum = new Totals();
    for (const direction of DIRECTIONS) {
      const { wireBytes, byAlgorithm, byKind } = this[direction];
      addDirection(sum[direction], { wireBytes, byAlgorithm: Object.fromEntries(byAlgorithm) });
      addKinds(sum[direction], byKind);
    }
    for (const session of live) sum.add(session);
    return sum;
  }
}

const DIRECTIONS = ['sent', 'received'] as const;

function nothing(): DirectionTotals {
  return { wireBytes: 0, byKind: { messages: 0, requests: 0, parts: 0 }, byAlgorithm: new Map() };
}

function addKinds({ byKind }: DirectionTotals, counts: ByKind | undefined): void {
  if (counts === undefined) return;
  byKind.messages += counts.messages;
  byKind.requests += counts.requests;
  byKind.parts += counts.parts;
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
