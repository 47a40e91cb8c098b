import { createRandom, type Random } from './random.js';

/**
 * The decisions of a session generator, read from an input: one byte for each choice. After the end of the
 * input, a generator seeded by its bytes continues. So every input stands for a whole session, always the
 * same one, and changing a byte changes a choice.
 */
export class Choices implements Random {
  readonly #input: Uint8Array;
  readonly #random: Random;
  #at = 0;

  constructor(input: Uint8Array) {
    this.#input = input;
    let hash = 0x811c9dc5;
    for (const byte of input) hash = Math.imul(hash ^ byte, 0x01000193);
    this.#random = createRandom(hash);
  }

  below(n: number): number {
    const byte = this.#input[this.#at++];
    if (byte === undefined) return this.#random.below(n);
    if (n <= 256) return byte % n;
    return ((byte << 8) | (this.#input[this.#at++] ?? 0)) % n;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }

  /** True once in `n` times. */
  oneIn(n: number): boolean {
    return this.below(n) === n - 1;
  }

  /** Picks one of several, each with the probability of its weight. */
  weighted<T>(list: readonly (readonly [weight: number, value: T])[]): T {
    let at = this.below(list.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, value] of list) {
      if (at < weight) return value;
      at -= weight;
    }
    throw new Error('the list to choose from is empty');
  }
}
