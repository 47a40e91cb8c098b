import * as http from 'node:http';
import * as modules from 'node:module';

/** XORs payloads with the keys of their frames (RFC 6455 section 5.3). */

/** Unmasks in place with a key of four bytes. */
type NativeUnmask = (payload: Buffer, key: Buffer) => void;

/** Shorter payloads take less time here than the call of native code does. */
const MIN_NATIVE = 256;
/** Shorter payloads are not worth a view of their words. */
const MIN_WORDS = 32;

const isLittleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
const native = loadNative();
const nativeKey = Buffer.alloc(4);

/** Node's own function, if it has one, else that of the optional package `bufferutil`. */
function loadNative(): NativeUnmask | undefined {
  const own = (http as { readonly websocketUnmask?: NativeUnmask }).websocketUnmask;
  if (own !== undefined) return own;
  try {
    // Bundles of servers often have a `createRequire` of their own in front.
    const require = modules.createRequire(import.meta.url);
    return (require('bufferutil') as { readonly unmask: NativeUnmask }).unmask;
  } catch {
    return undefined;
  }
}

/** @param key its first byte is the lowest one. */
export function unmask(payload: Buffer, key: number): void {
  if (key === 0) return;
  if (native === undefined || payload.length < MIN_NATIVE) {
    unmaskWords(payload, key);
    return;
  }
  nativeKey.writeInt32LE(key);
  native(payload, nativeKey);
}

/** As {@link unmask}, without native code. */
export function unmaskWords(payload: Uint8Array, key: number): void {
  const { buffer, byteOffset, length } = payload;
  if (length < MIN_WORDS || !isLittleEndian) {
    unmaskBytes(payload, 0, length, key);
    return;
  }
  const first = -byteOffset & 3;
  const count = (length - first) >> 2;
  unmaskBytes(payload, 0, first, key);
  const turned = turnKey(key, first);
  const words = new Int32Array(buffer, byteOffset + first, count);
  for (let i = 0; i < count; i++) words[i] = (words[i] as number) ^ turned;
  unmaskBytes(payload, first + count * 4, length, turned);
}

/** The key for what follows `count` bytes. */
export function turnKey(key: number, count: number): number {
  const bits = (count & 3) * 8;
  return bits === 0 ? key : (key >>> bits) | (key << (32 - bits));
}

function unmaskBytes(payload: Uint8Array, from: number, to: number, key: number): void {
  for (let at = from, bits = 0; at < to; at++, bits += 8) {
    payload[at] = (payload[at] as number) ^ (key >>> (bits & 31));
  }
}
