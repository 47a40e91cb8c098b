import type { Dialect } from '../sql/call.js';

export const DIALECT: Dialect = {
  bytes: 'BYTEA',
  whole: 'BIGINT',
  lists: { rows: 'unnest(?::bytea[])', of: listOf },
  forUpdate: ' FOR UPDATE',
  keyed: '',
  now: 'floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint',
  createVolatile: 'CREATE UNLOGGED TABLE IF NOT EXISTS',
  size: `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bytes FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'`,
};

/** The number of the type `bytea`. */
const BYTEA = 17;

/** An array in binary, which takes the least time of both sides: bytes as they are, after their length. */
function listOf(values: readonly Uint8Array[]): Buffer {
  const list = Buffer.allocUnsafe(values.reduce((sum, { length }) => sum + 4 + length, 20));
  let at = 0;
  // One dimension, no NULL, and the values are numbered from 1.
  for (const each of [1, 0, BYTEA, values.length, 1]) at = list.writeInt32BE(each, at);
  for (const value of values) {
    at = list.writeInt32BE(value.length, at);
    list.set(value, at);
    at += value.length;
  }
  return list;
}

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
