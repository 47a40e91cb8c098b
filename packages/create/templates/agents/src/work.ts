import { setTimeout as pause } from 'node:timers/promises';

/** The work of an agent: the prime factors of a number, one after the other. */
export async function* factors(number: number, signal: AbortSignal): AsyncGenerator<string> {
  let rest = number;
  for (let factor = 2; rest > 1; ) {
    if (factor * factor > rest) factor = rest;
    if (rest % factor === 0) {
      rest /= factor;
      yield `${factor} `;
      await pause(300, undefined, { signal });
    } else factor++;
  }
}
