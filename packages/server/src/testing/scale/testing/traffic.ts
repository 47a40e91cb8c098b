/** Counts calls and bytes by their kind. */
export class Counts {
  readonly #calls = new Map<string, number>();
  readonly #bytes = new Map<string, number>();
  /** Calls in each second. */
  readonly perSecond: number[] = [];

  add(what: string, calls: number, bytes: number, atMs: number): void {
    this.#calls.set(what, (this.#calls.get(what) ?? 0) + calls);
    this.#bytes.set(what, (this.#bytes.get(what) ?? 0) + bytes);
    const second = Math.floor(atMs / 1_000);
    this.perSecond[second] = (this.perSecond[second] ?? 0) + calls;
  }

  calls(what?: string): number {
    return totalOf(this.#calls, what);
  }
  bytes(what?: string): number {
    return totalOf(this.#bytes, what);
  }
  get names(): readonly string[] {
    return [...this.#calls.keys()].sort();
  }

  /** The counts since a copy. */
  since(before: Counts): Counts {
    const counts = new Counts();
    for (const name of this.names) {
      counts.#calls.set(name, this.calls(name) - before.calls(name));
      counts.#bytes.set(name, this.bytes(name) - before.bytes(name));
    }
    return counts;
  }

  copy(): Counts {
    return this.since(new Counts());
  }
}

function totalOf(values: ReadonlyMap<string, number>, what: string | undefined): number {
  if (what !== undefined) return values.get(what) ?? 0;
  let total = 0;
  for (const value of values.values()) total += value;
  return total;
}

/** Bytes of one text of a command of Redis or of its answer. */
export function textBytes(text: string | number): number {
  const length = typeof text === 'number' ? text : Buffer.byteLength(text);
  return lineBytes(length) + length + 2;
}

/** Bytes of the line that says how many of something follow. */
export const lineBytes = (count: number): number => String(count).length + 3;

/** Bytes of a list of texts. */
export function listBytes(...texts: readonly (string | number)[]): number {
  let bytes = lineBytes(texts.length);
  for (const text of texts) bytes += textBytes(text);
  return bytes;
}

/** Characters of the digest that names a script. */
const DIGEST = 40;

/** Bytes of a call of a script of Redis. */
export const scriptBytes = (keys: readonly string[], ...args: readonly (string | number)[]): number =>
  listBytes('EVALSHA', DIGEST, String(keys.length), ...keys, ...args);
