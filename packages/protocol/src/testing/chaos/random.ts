import { seeded } from '../prose.js';

/** The only source of randomness of a history, so that a failing one can be repeated. */
export interface Random {
  /** A whole number from 0 to `n` - 1. */
  below(n: number): number;
  /** Whether something with a probability of `percent` happens. */
  chance(percent: number): boolean;
  pick<T>(items: readonly T[]): T | undefined;
}

export function createRandom(seed: number): Random {
  const next = seeded(seed);
  const below = (n: number) => Math.floor(next() * n);
  return { below, chance: (percent) => next() * 100 < percent, pick: (items) => items[below(items.length)] };
}
