import { ProtocolError } from './errors.js';

/** Typed access to the fields of a decoded envelope. Every error names its field. */

/** A map without a prototype, so that no key that a peer chooses has a special meaning. */
export type StringMap = Readonly<Record<string, string>>;
export type Fields = Readonly<Record<string, unknown>>;

export function bad(field: string, expected: string): ProtocolError {
  const error = new ProtocolError('bad_message', `${field} must be ${expected}`);
  FIELDS.set(error, field);
  return error;
}

/** The field that an error of {@link bad} is about, such as `auth.token`. */
export function fieldOf(error: ProtocolError): string | undefined {
  return FIELDS.get(error);
}
const FIELDS = new WeakMap<ProtocolError, string>();

export function isFields(value: unknown): value is Fields {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  );
}

/** The value of an own field; names on the prototype count as absent. */
export function get(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

export function isStated(fields: Fields, name: string): boolean {
  const value = get(fields, name);
  return value !== undefined && value !== null;
}

export function objectField(fields: Fields, name: string): Fields {
  const value = get(fields, name);
  if (value === undefined || value === null) return {};
  if (!isFields(value)) throw bad(name, 'an object');
  return value;
}

export function stringField(fields: Fields, name: string, fallback: string, maxLength: number): string {
  const value = get(fields, name);
  if (value === undefined || value === null) return fallback;
  if (typeof value !== 'string') throw bad(name, 'a string');
  if (value.length > maxLength) throw bad(name, `at most ${maxLength} characters`);
  return value;
}

export function booleanField(fields: Fields, name: string, fallback: boolean): boolean {
  const value = get(fields, name);
  if (value === undefined || value === null) return fallback;
  if (typeof value !== 'boolean') throw bad(name, 'a boolean');
  return value;
}

/** A non-negative whole number. */
export function countField(fields: Fields, name: string, fallback: number): number {
  const value = get(fields, name);
  if (value === undefined || value === null) return fallback;
  if (!isCount(value)) throw bad(name, 'a non-negative whole number');
  return value;
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** The known names in a list, without repetitions; unknown names are ignored. */
export function namesField<Name>(
  fields: Fields,
  field: string,
  maxItems: number,
  parse: (name: string) => Name | undefined,
): Name[] {
  const value = get(fields, field);
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw bad(field, 'a list of names');
  if (value.length > maxItems) throw bad(field, `a list of at most ${maxItems} names`);
  const names = new Set<Name>();
  for (const item of value) {
    if (typeof item !== 'string') throw bad(field, 'a list of names');
    const name = parse(item);
    if (name !== undefined) names.add(name);
  }
  return [...names];
}

/** A map of strings to strings with at most `maxItems` entries. */
export function stringMapField(
  fields: Fields,
  field: string,
  maxItems: number,
  maxLength: number,
): StringMap {
  const entries = Object.entries(objectField(fields, field));
  if (entries.length > maxItems) throw bad(field, `a map of at most ${maxItems} entries`);
  const map: Record<string, string> = Object.create(null);
  for (const [key, value] of entries) {
    if (
      typeof value !== 'string' ||
      value.length > maxLength ||
      key.length > maxLength ||
      key === '__proto__'
    ) {
      throw bad(`${field} entry`, `a string of at most ${maxLength} characters under a plain name`);
    }
    map[key] = value;
  }
  return Object.freeze(map);
}
