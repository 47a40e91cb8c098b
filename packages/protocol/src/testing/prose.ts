/** Text that compresses like prose: words of an invented language, some much more frequent than others. */
export function createProse(seed: number): (words: number) => string {
  const random = seeded(seed);
  const syllables = Array.from({ length: 60 }, () =>
    [pick('bcdfghklmnprstvw', random), pick('aeiou', random), pick('nrslt ', random).trim()].join(''),
  );
  const vocabulary = Array.from({ length: 3000 }, () =>
    Array.from({ length: 1 + Math.floor(random() * 3) }, () => syllables[Math.floor(random() * 60)]).join(''),
  );
  return (words) =>
    Array.from({ length: words }, () => vocabulary[Math.floor(3000 * random() ** 3)]).join(' ');
}

/** mulberry32: numbers in [0, 1), the same for the same 32-bit seed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function pick(letters: string, random: () => number): string {
  return letters[Math.floor(random() * letters.length)] as string;
}
