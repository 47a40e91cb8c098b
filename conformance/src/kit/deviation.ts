/** The first thing at which a peer does not do what the specification says. */

const MOST_BYTES = 48;

export class Deviation extends Error {
  /** The frame or message in question, if there is one. */
  readonly bytes: Uint8Array | undefined;

  constructor(message: string, bytes?: Uint8Array | string) {
    super(message);
    this.bytes = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes;
  }

  /** The sentence with its bytes. */
  get inWords(): string {
    return this.bytes === undefined ? this.message : `${this.message}: ${hex(this.bytes)}`;
  }
}

/** A scenario that does not apply to this peer, and why. */
export class NotApplicable extends Error {}

/** @returns the first bytes in hexadecimal. */
export function hex(bytes: Uint8Array): string {
  const shown = Buffer.from(bytes.subarray(0, MOST_BYTES)).toString('hex').replace(/../g, '$& ').trimEnd();
  const rest = bytes.length > MOST_BYTES ? ` … (${bytes.length} bytes)` : '';
  return bytes.length === 0 ? '(empty)' : shown + rest;
}

/** @throws {Deviation} if the peer has not done what it has to. */
export function must(condition: boolean, message: string, bytes?: Uint8Array | string): asserts condition {
  if (!condition) throw new Deviation(message, bytes);
}

/** @throws {Deviation} if two values differ as JSON. */
export function mustEqual(found: unknown, expected: unknown, what: string, bytes?: Uint8Array): void {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  must(a === b, `${what} is ${shortened(a)}, expected ${shortened(b)}`, bytes);
}

const shortened = (text = 'absent') => (text.length > 200 ? `${text.slice(0, 200)}…` : text);
