import type { ProtocolError } from './errors.js';
import { bad, isCount } from './fields.js';

/** A list of values without names, such as those of a snapshot, read one after the other. Errors name the list. */
export class ValueList {
  readonly #values: readonly unknown[];
  readonly #what: string;
  #at = 0;

  /** @throws {ProtocolError} `bad_message` if `value` is not a list; so do all methods, for a value of another kind. */
  constructor(value: unknown, what: string) {
    this.#what = what;
    if (!Array.isArray(value)) throw this.bad('a list');
    this.#values = value;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#values.length;
  }

  /** A value that is read elsewhere; `undefined` at the end. */
  value(): unknown {
    return this.#values[this.#at++];
  }

  /** A whole number from 0 to `max`. @default max 2^53 - 1 */
  count(max = Number.MAX_SAFE_INTEGER): number {
    const value = this.value();
    if (isCount(value) && value <= max) return value;
    throw this.bad(`a whole number from 0 to ${max}`);
  }

  /** A finite number. */
  number(): number {
    const value = this.value();
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    throw this.bad('a finite number');
  }

  /** A number from 0; `null` stands for `Infinity`. */
  amount(): number {
    const value = this.value();
    if (value === null) return Infinity;
    if (typeof value === 'number' && value >= 0) return value;
    throw this.bad('a number from 0, or null');
  }

  flag(): boolean {
    const value = this.value();
    if (typeof value === 'boolean') return value;
    throw this.bad('true or false');
  }

  /** @param maxLength in UTF-16 units. */
  text(maxLength: number): string {
    const value = this.value();
    if (typeof value === 'string' && value.length <= maxLength) return value;
    throw this.bad(`a string of at most ${maxLength} characters`);
  }

  /** A copy, which keeps nothing of the list alive. @default maxLength unlimited */
  bytes(maxLength = Infinity): Uint8Array<ArrayBuffer> {
    const value = this.value();
    if (value instanceof Uint8Array && value.length <= maxLength) return new Uint8Array(value);
    throw this.bad(`at most ${maxLength} bytes`);
  }

  /** The value that `read` returns; `undefined` for `null` and at the end. */
  optional<Value>(read: (list: this) => Value): Value | undefined {
    const value = this.#values[this.#at];
    if (value !== null && value !== undefined) return read(this);
    this.#at++;
    return undefined;
  }

  /** The rest of the list, in which all values are of one kind. */
  rest<Value>(read: (list: this) => Value): Value[] {
    const values: Value[] = [];
    while (!this.isAtEnd) values.push(read(this));
    return values;
  }

  bad(expected: string): ProtocolError {
    return bad(this.#what, expected);
  }
}

/** Reads a list of lists; an absent one is empty. @throws {ProtocolError} as {@link ValueList}. */
export function listsOf<Value>(value: unknown, what: string, read: (list: ValueList) => Value): Value[] {
  if (value === undefined || value === null) return [];
  return new ValueList(value, what).rest((list) => read(new ValueList(list.value(), what)));
}

/** `Infinity` and `undefined` as a list holds them. */
export function orNull<Value>(value: Value): Value | null {
  return value === Infinity || value === undefined ? null : value;
}

/** The whole milliseconds from `now` to `then`, from 0: a session without a connection lets what is due wait. */
export function msUntil(then: number, now: number): number | null {
  return orNull(Math.max(0, Math.round(then - now)));
}

/** The values without those at the end that are `null`: {@link ValueList.optional} reads the end as such. */
export function trimmed(values: readonly unknown[]): readonly unknown[] {
  let { length } = values;
  while (length > 0 && values[length - 1] === null) length--;
  return values.slice(0, length);
}
