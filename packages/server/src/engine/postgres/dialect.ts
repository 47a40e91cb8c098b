import type { Dialect } from '../sql/call.js';

export const DIALECT: Dialect = {
  bytes: 'BYTEA',
  whole: 'BIGINT',
  // Not `= ANY`: a plan that was made for a small table compares each row of a large one with each value.
  anyOf: "IN (SELECT unnest(string_to_array(?, ',')::bytea[]))",
  forUpdate: ' FOR UPDATE',
  keyed: '',
  now: 'floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint',
  createVolatile: 'CREATE UNLOGGED TABLE IF NOT EXISTS',
  size: `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bytes FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'`,
};

/** A statement as Postgres takes it. */
export interface PreparedText {
  /** By which a connection remembers it. */
  readonly name: string;
  readonly text: string;
  /** It changes and locks nothing, so that it needs no transaction. */
  readonly isRead: boolean;
}

/** Statements that are remembered; those of each kind are few. */
const MAX_TEXTS = 1_000;

const texts = new Map<string, PreparedText>();
let named = 0;

/** Numbers the parameters of a statement. */
export function preparedText(text: string): PreparedText {
  const known = texts.get(text);
  if (known !== undefined) return known;
  let parameters = 0;
  const prepared = {
    name: `parlance_${named++}`,
    text: text.replaceAll('?', () => `$${++parameters}`),
    isRead: /^\s*SELECT\b/.test(text) && !text.endsWith(DIALECT.forUpdate),
  };
  if (texts.size >= MAX_TEXTS) texts.clear();
  texts.set(text, prepared);
  return prepared;
}
