/**
 * Whether two messages share passages, wherever these stand, without comparing them: places that are
 * found by their content alone (where a rolling hash of 32 bytes happens to be small) are the same
 * places in both, so a few hashes of the one are looked up among those of the other.
 */

/** The hashes of a message at its content-defined places. */
export interface Sketch {
  /** How many leading bits of a hash are zero at the places that were taken. */
  readonly zeros: number;
  readonly hashes: ReadonlySet<number>;
}

/** Bytes that a hash depends on. */
const WINDOW = 32;
/** Every 2^4th place of a short message, every 2^8th of a long one. */
const DENSE = 4;
const SPARSE = 8;
const LONG = 16 * 1024;
/** Parts of a message that stand for the whole when it is looked up. */
const SAMPLES = 16;
const SAMPLE_LENGTH = 512;
/** A verdict on fewer places means nothing. */
const MIN_PLACES = 2;

/** A fixed table of well-mixed numbers, one for each byte. */
const GEAR = Int32Array.from({ length: 256 }, (_, byte) => {
  let x = Math.imul(byte + 1, 0x9e3779b1);
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return x ^ (x >>> 16);
});

/** Takes somewhat more than a microsecond for each kilobyte. */
export function sketchOf(content: Uint8Array): Sketch {
  const zeros = content.length < LONG ? DENSE : SPARSE;
  const hashes = new Set<number>();
  visit(content, 0, content.length, zeros, (hash) => hashes.add(hash));
  return { zeros, hashes };
}

/** Hashes from all over a message, to be looked up in sketches of others. */
export function samplesOf(content: Uint8Array): readonly number[] {
  const samples: number[] = [];
  const take = (hash: number) => samples.push(hash);
  if (content.length <= SAMPLES * SAMPLE_LENGTH) {
    visit(content, 0, content.length, DENSE, take);
    return samples;
  }
  const stride = (content.length - SAMPLE_LENGTH) / (SAMPLES - 1);
  for (let i = 0; i < SAMPLES; i++) {
    const start = Math.floor(i * stride);
    visit(content, start, start + SAMPLE_LENGTH, DENSE, take);
  }
  return samples;
}

/** The share of the sampled message that the sketched one has too, from 0 to 1: an estimate. */
export function sharedWith(samples: readonly number[], { zeros, hashes }: Sketch): number {
  let places = 0;
  let shared = 0;
  for (const hash of samples) {
    if (hash >>> (32 - zeros) !== 0) continue;
    places++;
    if (hashes.has(hash)) shared++;
  }
  return places < MIN_PLACES ? 0 : shared / places;
}

function visit(
  content: Uint8Array,
  start: number,
  end: number,
  zeros: number,
  take: (hash: number) => void,
): void {
  const shift = 32 - zeros;
  let hash = 0;
  // Whatever stood before the window has been shifted out by the time a hash counts.
  const full = Math.min(end, start + WINDOW - 1);
  let at = start;
  for (; at < full; at++) hash = ((hash << 1) + GEAR[content[at]!]!) | 0;
  for (; at < end; at++) {
    hash = ((hash << 1) + GEAR[content[at]!]!) | 0;
    if (hash >>> shift === 0) take(hash);
  }
}
