import type { TokenTable } from '../token-table.js';

/** Byte-pair encoding straight from its definition: slow, for comparison with the fast one. */
export type PlainBpe = (bytes: Uint8Array) => number[];

/** @param limit the first ID that the vocabulary does not have. */
export function createPlainBpe({ bytes, offsets }: TokenTable, limit: number): PlainBpe {
  const ranks = new Map<string, number>();
  for (let id = 0; id < limit; id++) {
    ranks.set(latin1(bytes.subarray(offsets[id] as number, offsets[id + 1] as number)), id);
  }
  return (piece) => {
    const parts = [...latin1(piece)];
    for (;;) {
      let best = Number.POSITIVE_INFINITY;
      let at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = ranks.get(`${parts[i]}${parts[i + 1]}`);
        if (rank !== undefined && rank < best) {
          best = rank;
          at = i;
        }
      }
      if (at < 0) return parts.map((part) => ranks.get(part) as number);
      parts.splice(at, 2, `${parts[at]}${parts[at + 1]}`);
    }
  };
}

/** One character per byte. */
function latin1(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}
