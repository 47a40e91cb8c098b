/** A small seeded generator, so that a run can be repeated. Not for secrets. */
export interface Random {
  /** A whole number from 0 to `n` - 1. */
  below(n: number): number;
  pick<T>(list: readonly T[]): T;
}

/** sfc32, seeded with one 32-bit number. */
export function createRandom(seed: number): Random {
  let [a, b, c, counter] = [seed | 0, 0x9e3779b9 | 0, 0x243f6a88 | 0, 1];
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  // The first numbers still reveal the seed.
  for (let i = 0; i < 15; i++) next();
  return {
    below: (n) => Math.floor((next() / 2 ** 32) * n),
    pick: (list) => list[Math.floor((next() / 2 ** 32) * list.length)] as (typeof list)[number],
  };
}
