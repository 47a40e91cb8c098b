/**
 * The common key of the tabs of a session. Nothing that is written down or visible to other scripts shows the
 * credential: names are made of the digest.
 */
export interface SharedKey {
  /** SHA-256 of the content, in hexadecimal; `undefined` where the page has no cryptography. */
  readonly digest: string | undefined;
  /** Equal for equal content. It may be the content itself, and stays in memory. */
  readonly exact: string;
}

/**
 * @param content URL, options and credential; each a JSON value or a number such as `Infinity`.
 * @param subtle `undefined` in a page without TLS.
 */
export async function keyOf(content: unknown, subtle: SubtleCrypto | undefined): Promise<SharedKey> {
  const text = canonical(content);
  if (subtle === undefined) return { digest: undefined, exact: text };
  const hash = await subtle.digest('SHA-256', new TextEncoder().encode(text));
  const digest = [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return { digest, exact: digest };
}

/** The same text for equal values: with sorted keys, without those that are `undefined`. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, each]) => each !== undefined);
    const sorted = entries.sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${sorted.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`;
  }
  // JSON has neither `Infinity` nor `undefined`.
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
