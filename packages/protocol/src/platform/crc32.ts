/** CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320) for platforms without one. */

// Slicing by 16: each step folds sixteen bytes through sixteen tables, about three times as fast as
// one byte at a time.
const SLICES = 16;
const tables = buildTables();

function buildTables(): Uint32Array[] {
  const first = new Uint32Array(256);
  for (let n = 0; n < 256; n++) {
    let c = n;
    for (let bit = 0; bit < 8; bit++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
    first[n] = c;
  }
  const all = [first];
  for (let slice = 1; slice < SLICES; slice++) {
    const previous = all[slice - 1] as Uint32Array;
    all.push(previous.map((c) => (first[c & 0xff] as number) ^ (c >>> 8)));
  }
  return all;
}

const [T0, T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12, T13, T14, T15] = tables as [
  ...Uint32Array[],
] as unknown as readonly [
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
];

/** @param seed the CRC of the bytes before these. */
export function crc32(bytes: Uint8Array, seed = 0): number {
  let c = ~seed;
  let i = 0;
  // All indices below are in range by construction.
  const b = bytes as unknown as { readonly [index: number]: number };
  const t = (table: Uint32Array, index: number) => table[index] as number;
  for (const end = bytes.length - SLICES; i <= end; i += SLICES) {
    c ^= b[i]! | (b[i + 1]! << 8) | (b[i + 2]! << 16) | (b[i + 3]! << 24);
    c =
      t(T15, c & 0xff) ^
      t(T14, (c >>> 8) & 0xff) ^
      t(T13, (c >>> 16) & 0xff) ^
      t(T12, c >>> 24) ^
      t(T11, b[i + 4]!) ^
      t(T10, b[i + 5]!) ^
      t(T9, b[i + 6]!) ^
      t(T8, b[i + 7]!) ^
      t(T7, b[i + 8]!) ^
      t(T6, b[i + 9]!) ^
      t(T5, b[i + 10]!) ^
      t(T4, b[i + 11]!) ^
      t(T3, b[i + 12]!) ^
      t(T2, b[i + 13]!) ^
      t(T1, b[i + 14]!) ^
      t(T0, b[i + 15]!);
  }
  for (; i < bytes.length; i++) c = t(T0, (c ^ b[i]!) & 0xff) ^ (c >>> 8);
  return ~c >>> 0;
}
