let last: { readonly unit: Uint8Array; readonly most: number; readonly many: Uint8Array } | undefined;

/**
 * Up to `most` repetitions of `unit`, as views of one buffer. Connections with the same unit share it;
 * otherwise a thousand of them would hold a thousand copies.
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
