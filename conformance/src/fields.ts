import { fail } from './expect.js';

/**
 * A vector as read from the file: an object whose fields say what to do and what to expect. Every access
 * states the field and the type that it needs, so a case of another shape fails with that name instead of
 * being skipped.
 */
export class Fields {
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #path: string;

  constructor(fields: Readonly<Record<string, unknown>>, path = '') {
    this.#fields = fields;
    this.#path = path;
  }

  get names(): readonly string[] {
    return Object.keys(this.#fields);
  }

  /** Whether the field exists and is not null. */
  has(name: string): boolean {
    return this.raw(name) !== undefined && this.raw(name) !== null;
  }

  raw(name: string): unknown {
    return Object.hasOwn(this.#fields, name) ? this.#fields[name] : undefined;
  }

  text(name: string): string {
    const value = this.raw(name);
    return typeof value === 'string' ? value : this.#lacks(name, 'a string');
  }

  number(name: string): number {
    const value = this.raw(name);
    return typeof value === 'number' ? value : this.#lacks(name, 'a number');
  }

  flag(name: string): boolean {
    const value = this.raw(name);
    return typeof value === 'boolean' ? value : this.#lacks(name, 'a boolean');
  }

  hex(name: string): Uint8Array {
    const text = this.text(name);
    if (!/^(?:[0-9a-f]{2})*$/.test(text)) this.#lacks(name, 'lowercase hex');
    return new Uint8Array(Buffer.from(text, 'hex'));
  }

  object(name: string): Fields {
    const value = this.raw(name);
    return isRecord(value) ? new Fields(value, this.#at(name)) : this.#lacks(name, 'an object');
  }

  /** A list of objects. */
  objects(name: string): Fields[] {
    return this.list(name).map((value, i) =>
      isRecord(value)
        ? new Fields(value, `${this.#at(name)}[${i}]`)
        : this.#lacks(`${name}[${i}]`, 'an object'),
    );
  }

  list(name: string): readonly unknown[] {
    const value = this.raw(name);
    return Array.isArray(value) ? value : this.#lacks(name, 'a list');
  }

  texts(name: string): readonly string[] {
    return this.list(name).map((value, i) =>
      typeof value === 'string' ? value : this.#lacks(`${name}[${i}]`, 'a string'),
    );
  }

  numbers(name: string): readonly number[] {
    return this.list(name).map((value, i) =>
      typeof value === 'number' ? value : this.#lacks(`${name}[${i}]`, 'a number'),
    );
  }

  /**
   * One of the words that the runner knows; an unknown word is a kind of case that the runner cannot check
   * yet.
   */
  word<Word extends string>(name: string, known: readonly Word[]): Word {
    const value = this.text(name);
    return known.find((word) => word === value) ?? this.#lacks(name, `one of ${known.join(', ')}`);
  }

  /** The value of the field, if it exists. */
  maybe<Method extends 'text' | 'number' | 'flag' | 'hex' | 'object' | 'objects' | 'texts' | 'numbers'>(
    method: Method,
    name: string,
  ): ReturnType<Fields[Method]> | undefined {
    return this.has(name) ? (this[method](name) as ReturnType<Fields[Method]>) : undefined;
  }

  /** Fails if there are other fields than these. */
  only(known: readonly string[]): void {
    const unknown = this.names.filter((name) => !known.includes(name));
    if (unknown.length > 0) fail(`the runner does not know the field ${this.#at(unknown[0] as string)}`);
  }

  #at(name: string): string {
    return this.#path === '' ? name : `${this.#path}.${name}`;
  }

  #lacks(name: string, kind: string): never {
    const value = this.raw(name);
    const found = value === undefined ? 'is missing' : `is ${JSON.stringify(value)?.slice(0, 60)}`;
    return fail(`the case's ${this.#at(name)} must be ${kind} and ${found}`);
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
