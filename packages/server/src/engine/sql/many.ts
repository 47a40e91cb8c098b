import type { Dialect, SqlValue } from './call.js';

/** Values in one list of a statement. */
const MAX_VALUES = 256;
/** So many values are found sooner as parameters than as a list. */
const MAX_FEW = 8;
/** Bytes of rows that are written with one statement, and those that a row takes besides its values. */
const BATCH_SIZE = 1024 * 1024;
const ROW_SIZE = 32;

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

/**
 * Yields the condition after a column that has one of some values, and its parameters: for all of them, or for some at
 * a time.
 */
export function* amongOf(
  { lists }: Dialect,
  values: readonly Buffer[],
): Generator<readonly [condition: string, parameters: readonly SqlValue[]]> {
  // Not `= ANY`: a plan that was made for a small table compares each row of a large one with each value.
  if (lists !== undefined && values.length > MAX_FEW) yield [`IN (SELECT ${lists.rows})`, [lists.of(values)]];
  else for (const some of listsOf(values)) yield [`IN (${repeated('?', some.length)})`, some];
}

/** Splits rows for `VALUES …`, none of them repeated, into parts of as few different lengths. */
export function* rowsOf<Item>(rows: readonly Item[]): Generator<readonly Item[]> {
  for (let from = 0; from < rows.length; ) {
    const length = 2 ** Math.floor(Math.log2(Math.min(rows.length - from, MAX_VALUES)));
    yield rows.slice(from, from + length);
    from += length;
  }
}

/** Splits rows for lists, so that no statement takes long. */
export function* batchesOf<Each extends readonly Uint8Array[]>(
  rows: readonly Each[],
): Generator<readonly Each[]> {
  let [from, size] = [0, 0];
  for (const [i, row] of rows.entries()) {
    const length = row.reduce((sum, value) => sum + value.length, ROW_SIZE);
    if (i > from && size + length > BATCH_SIZE) {
      yield rows.slice(from, i);
      [from, size] = [i, 0];
    }
    size += length;
  }
  if (from < rows.length) yield rows.slice(from);
}

/** A statement for each number of values or rows, or for each condition, which is put together once. */
export function forCount<Count = number>(build: (count: Count) => string): (count: Count) => string {
  const built = new Map<Count, string>();
  return (count) => {
    const text = built.get(count) ?? build(count);
    built.set(count, text);
    return text;
  };
}

/** `?, ?, ?` */
export const repeated = (mark: string, count: number): string => Array(count).fill(mark).join(', ');
