import type { Dialect, SqlValue } from './call.js';

/** Values in one list of a statement. */
const MAX_VALUES = 256;

/**
 * Splits values for `IN (…)`. Each part has one of nine lengths, so that a database prepares few different statements: the last
 * value is repeated as often as needed.
 */
export function* listsOf<Value extends SqlValue>(values: readonly Value[]): Generator<readonly Value[]> {
  for (let from = 0; from < values.length; from += MAX_VALUES) {
    const part = values.slice(from, from + MAX_VALUES);
    const last = part.at(-1) as Value;
    const length = 2 ** Math.ceil(Math.log2(part.length));
    yield [...part, ...Array<Value>(length - part.length).fill(last)];
  }
}

/** What stands after a column that has one of some values, and its parameters: for all of them, or for some at a time. */
export function* amongOf(
  { anyOf }: Dialect,
  values: readonly Buffer[],
): Generator<readonly [condition: string, parameters: readonly SqlValue[]]> {
  if (anyOf === undefined)
    for (const some of listsOf(values)) yield [`IN (${repeated('?', some.length)})`, some];
  else if (values.length > 0) yield [anyOf, [values.map((each) => `\\x${each.toString('hex')}`).join(',')]];
}

/** Splits rows for `VALUES …`, none of them repeated, into parts of as few different lengths. */
export function* rowsOf<Item>(rows: readonly Item[]): Generator<readonly Item[]> {
  for (let from = 0; from < rows.length; ) {
    const length = 2 ** Math.floor(Math.log2(Math.min(rows.length - from, MAX_VALUES)));
    yield rows.slice(from, from + length);
    from += length;
  }
}

/** A statement for each number of values or rows, which is put together once. */
export function forCount(build: (count: number) => string): (count: number) => string {
  const built = new Map<number, string>();
  return (count) => {
    const text = built.get(count) ?? build(count);
    built.set(count, text);
    return text;
  };
}

/** `?, ?, ?` */
export const repeated = (mark: string, count: number): string => Array(count).fill(mark).join(', ');
