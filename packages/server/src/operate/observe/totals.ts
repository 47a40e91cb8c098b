import type { AlgorithmStats, BodyCounts, DirectionStats, SessionStats } from '@parlance/protocol';
import type { Traffic } from '@parlance/protocol/internal';

/** The traffic of all sessions of a server, including those that have ended. */

type ByKind = Pick<BodyCounts, 'messages' | 'requests' | 'parts'>;
type Counts = ByKind & Pick<BodyCounts, 'tokens'>;

/** A session as far as it is counted. */
export interface Counted {
  stats(): Pick<SessionStats, 'sent' | 'received'>;
  readonly recorder: { readonly traffic: Traffic };
  /** The counts of its bodies; `undefined` without any. */
  bodies(direction: 'sent' | 'received'): Counts | undefined;
}

export interface DirectionTotals {
  wireBytes: number;
  /** Token IDs on the wire. */
  tokens: number;
  readonly byKind: { -readonly [Kind in keyof ByKind]: number };
  readonly byAlgorithm: Map<string, { messages: number; codedBytes: number; contentBytes: number }>;
}

export class Totals {
  readonly sent = nothing();
  readonly received = nothing();

  add(session: Counted): void {
    const stats = session.stats();
    for (const direction of DIRECTIONS) {
      const { byAlgorithm } = stats[direction];
      addDirection(this[direction], { wireBytes: session.recorder.traffic[direction], byAlgorithm });
      addCounts(this[direction], session.bodies(direction));
    }
  }

  /** These totals plus those of open sessions. */
  with(live: Iterable<Counted>): Totals {
    const sum = new Totals();
    for (const direction of DIRECTIONS) {
      const { wireBytes, byAlgorithm, byKind, tokens } = this[direction];
      addDirection(sum[direction], { wireBytes, byAlgorithm: Object.fromEntries(byAlgorithm) });
      addCounts(sum[direction], { ...byKind, tokens });
    }
    for (const session of live) sum.add(session);
    return sum;
  }
}

const DIRECTIONS = ['sent', 'received'] as const;

function nothing(): DirectionTotals {
  const byKind = { messages: 0, requests: 0, parts: 0 };
  return { wireBytes: 0, tokens: 0, byKind, byAlgorithm: new Map() };
}

function addCounts(totals: DirectionTotals, counts: Counts | undefined): void {
  if (counts === undefined) return;
  const { byKind } = totals;
  totals.tokens += counts.tokens;
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
