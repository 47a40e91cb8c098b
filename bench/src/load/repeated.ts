let last: { readonly unit: Uint8Array; readonly most: number; readonly many: Uint8Array } | undefined;

/**
 * `unit` up to `most` times in a row, as views of one buffer. Connections that repeat the same unit
 * share it: a thousand of them would otherwise hold a thousand copies.
 */
export function repeated(unit: Uint8Array, most: number): (count: number) => Uint8Array {
  if (last?.most !== most || Buffer.compare(last.unit, unit) !== 0) {
    const many = new Uint8Array(unit.length * most);
    for (let i = 0; i < most; i++) many.set(unit, i * unit.length);
    last = { unit, most, many };
  }
  const { many } = last;
  return (count) => many.subarray(0, count * unit.length);
}
