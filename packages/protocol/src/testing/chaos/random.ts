/** The only source of chance of a history, so that one that fails can be run again. */
export interface Random {
  /** A whole number from 0 to `n` - 1. */
  below(n: number): number;
  /** Whether something happens that happens `percent` times in a hundred. */
  chance(percent: number): boolean;
  pick<T>(items: readonly T[]): T | undefined;
}

/** mulberry32, seeded with one 32-bit number. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(next() * n);
  return { below, chance: (percent) => next() * 100 < percent, pick: (items) => items[below(items.length)] };
}
