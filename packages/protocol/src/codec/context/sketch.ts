/**
 * Estimates whether two messages share passages anywhere, without comparing them. It takes hashes at places
 * that depend on the content alone (where a rolling hash of 32 bytes happens to be small). A shared passage
 * has the same places in both messages, so it is enough to look up a few hashes of one message among those of
 * the other.
 */

/** The hashes of a message at its content-defined places. */
export interface Sketch {
  /** The number of leading zero bits that a hash needs to count as a place. */
  readonly zeros: number;
  readonly hashes: ReadonlySet<number>;
}

/** The number of bytes that a hash depends on. */
const WINDOW = 32;
/** Every 2^4th place of a short message, every 2^8th of a long one. */
const DENSE = 4;
const SPARSE = 8;
const LONG = 16 * 1024;
/** Number and length of the parts that are sampled from a long message. */
const SAMPLES = 16;
const SAMPLE_LENGTH = 512;
/** With fewer places, the estimate means nothing. */
const MIN_PLACES = 2;

/** A fixed table of well-mixed numbers, one for each byte. */
const GEAR = Int32Array.from({ length: 256 }, (_, byte) => {
  let x = Math.imul(byte + 1, 0x9e3779b1);
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return x ^ (x >>> 16);
});

/** The hashes of a whole message. Takes somewhat more than a microsecond per kilobyte. */
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

/** An estimate of the share of the sampled message that is also in the sketched one, from 0 to 1. */
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
  // Hashes count only once the window is full: earlier bytes have been shifted out by then.
  const full = Math.min(end, start + WINDOW - 1);
  let at = start;
  for (; at < full; at++) hash = ((hash << 1) + GEAR[content[at]!]!) | 0;
  for (; at < end; at++) {
    hash = ((hash << 1) + GEAR[content[at]!]!) | 0;
    if (hash >>> shift === 0) take(hash);
  }
}
