import { createRandom, type Random } from './random.js';

/**
 * What a generator of sessions decides, read from an input: a byte for each choice. Past the end of the
 * input a generator goes on that its bytes have seeded, so that every input stands for a whole session, the
 * same one every time, and changing a byte changes a choice.
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

  /** One of several, each as likely as its weight says. */
  weighted<T>(list: readonly (readonly [weight: number, value: T])[]): T {
    let at = this.below(list.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, value] of list) {
      if (at < weight) return value;
      at -= weight;
    }
    throw new Error('there is nothing to choose from');
  }
}
