/** What two byte strings share at either end, found sixteen bytes at a time. */

const STEP = 16;

/** Bytes that `a` and `b` begin with alike. */
export function commonPrefix(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  const x = new DataView(a.buffer, a.byteOffset, a.length);
  const y = new DataView(b.buffer, b.byteOffset, b.length);
  let at = 0;
  while (at + STEP <= length && sameStep(x, at, y, at)) at += STEP;
  while (at < length && a[at] === b[at]) at++;
  return at;
}

/** Bytes that `a` and `b` end with alike, at most `most`. */
export function commonSuffix(a: Uint8Array, b: Uint8Array, most: number): number {
  const length = Math.min(a.length, b.length, most);
  const x = new DataView(a.buffer, a.byteOffset, a.length);
  const y = new DataView(b.buffer, b.byteOffset, b.length);
  let count = 0;
  while (count + STEP <= length && sameStep(x, a.length - count - STEP, y, b.length - count - STEP))
    count += STEP;
  while (count < length && a[a.length - 1 - count] === b[b.length - 1 - count]) count++;
  return count;
}

/** Whether sixteen bytes are equal. */
function sameStep(x: DataView, i: number, y: DataView, j: number): boolean {
  return (
    ((x.getInt32(i, true) ^ y.getInt32(j, true)) |
      (x.getInt32(i + 4, true) ^ y.getInt32(j + 4, true)) |
      (x.getInt32(i + 8, true) ^ y.getInt32(j + 8, true)) |
      (x.getInt32(i + 12, true) ^ y.getInt32(j + 12, true))) ===
    0
  );
}
