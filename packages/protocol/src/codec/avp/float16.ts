/**
 * Converts IEEE 754 half precision and bfloat16 to and from single precision. Subnormals, infinities, the
 * sign of zero and the payload of a NaN survive. Sixteen-bit values are passed as their bit patterns.
 * Narrowing rounds to nearest, ties to even.
 *
 * All values pass through a `Uint32Array` over the same memory as the `Float32Array`: a NaN that
 * is read as a number may come back with other bits.
 */

const EXPONENT_16 = 0x7c00;
const FRACTION_16 = 0x03ff;
const INFINITY_32 = 0x7f800000;
/** The difference of the exponent biases, 127 − 15, at the position of a float32's exponent. */
const REBIAS = 112 << 23;

/** @param into receives the values; must be as long as `bits`. */
export function float16ToFloat32(
  bits: Uint16Array,
  into: Float32Array<ArrayBuffer> = new Float32Array(bits.length),
): Float32Array<ArrayBuffer> {
  const out = new Uint32Array(into.buffer, into.byteOffset, bits.length);
  for (let i = 0; i < bits.length; i++) {
    const half = bits[i] as number;
    const exponent = half & EXPONENT_16;
    let single = (half & 0x7fff) << 13;
    if (exponent === EXPONENT_16) {
      single |= INFINITY_32;
    } else if (exponent !== 0) {
      single += REBIAS;
    } else if (single !== 0) {
      // Subnormal: shift the leading one out of the fraction, by at most 10 places.
      const shift = Math.clz32(half & FRACTION_16) - 21;
      single = ((113 - shift) << 23) | (((half << shift) & FRACTION_16) << 13);
    }
    out[i] = single | ((half & 0x8000) << 16);
  }
  return into;
}

/** @param into receives the bit patterns; must be as long as `values`. */
export function float32ToFloat16(
  values: Float32Array,
  into: Uint16Array<ArrayBuffer> = new Uint16Array(values.length),
): Uint16Array<ArrayBuffer> {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) {
    const single = bits[i] as number;
    into[i] = ((single >>> 16) & 0x8000) | narrowToFloat16(single & 0x7fffffff);
  }
  return into;
}

/** @param magnitude a float32 without its sign. */
function narrowToFloat16(magnitude: number): number {
  if (magnitude > INFINITY_32) {
    // A NaN whose payload is only in the dropped bits must not become an infinity.
    return EXPONENT_16 | ((magnitude >>> 13) & FRACTION_16 || 0x200);
  }
  // 2^16 and more. Smaller values that round up to 2^16 get there by a carry into the exponent.
  if (magnitude >= 0x47800000) return EXPONENT_16;
  // 2^-14 and more: normal.
  if (magnitude >= 0x38800000) return roundOff(magnitude - REBIAS, 13);
  // 2^-25 is half of the smallest subnormal, a tie that rounds to zero.
  if (magnitude <= 0x33000000) return 0;
  return roundOff((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >>> 23));
}

/** `value` without its last `places` bits, rounded to nearest, ties to even. */
function roundOff(value: number, places: number): number {
  const kept = value >>> places;
  const dropped = value & ((1 << places) - 1);
  const half = 1 << (places - 1);
  return dropped > half || (dropped === half && (kept & 1) === 1) ? kept + 1 : kept;
}

/** @param into receives the values; must be as long as `bits`. */
export function bfloat16ToFloat32(
  bits: Uint16Array,
  into: Float32Array<ArrayBuffer> = new Float32Array(bits.length),
): Float32Array<ArrayBuffer> {
  const out = new Uint32Array(into.buffer, into.byteOffset, bits.length);
  for (let i = 0; i < bits.length; i++) out[i] = (bits[i] as number) << 16;
  return into;
}

/** @param into receives the bit patterns; must be as long as `values`. */
export function float32ToBfloat16(
  values: Float32Array,
  into: Uint16Array<ArrayBuffer> = new Uint16Array(values.length),
): Uint16Array<ArrayBuffer> {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) {
    const single = bits[i] as number;
    const sign = (single >>> 16) & 0x8000;
    const magnitude = single & 0x7fffffff;
    into[i] =
      magnitude > INFINITY_32
        ? sign | (magnitude >>> 16) | ((magnitude & 0x7f0000) === 0 ? 0x40 : 0)
        : sign | roundOff(magnitude, 16);
  }
  return into;
}
