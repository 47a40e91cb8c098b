/**
 * A call of an engine as statements in SQL: it yields each one, gets its rows, and returns the result. So it is written once for
 * every database: one that answers at once runs it in a loop, another one waits between the steps.
 *
 * A database runs a call in one transaction, and from its beginning again if another transaction was in the way. A call has no
 * effect but by its statements.
 */
export type SqlCall<Result> = Generator<Statement, Result, readonly Row[]>;

/** One statement. Its parameters stand as `?`, and no text in it has another question mark. */
export interface Statement {
  readonly text: string;
  readonly values: readonly SqlValue[];
}

/** Numbers are whole and safe; texts have no U+0000 and no lone surrogate. */
export type SqlValue = string | number | Uint8Array | null;

/** Whole numbers are numbers, bytes a `Uint8Array` or `Buffer`. No column is a truth value, which databases give differently. */
export type Row = Readonly<Record<string, SqlValue>>;

/** Terms that databases write differently. */
export interface Dialect {
  /** The type of bytes: `BLOB`. */
  readonly bytes: string;
  /** The type of whole numbers up to 2^53: `INTEGER`. */
  readonly whole: string;
  /** Lists of bytes; `undefined` if there are none, and a statement costs no round trip. */
  readonly lists: Lists | undefined;
  /** After a `SELECT` of rows that the call changes: ` FOR UPDATE`, or nothing if only one transaction is under way at a time. */
  readonly forUpdate: string;
  /** After the columns of a table whose rows are small or read in the order of its key: ` WITHOUT ROWID`, or nothing. */
  readonly keyed: string;
  /** An expression without parameters, the clock of the database in whole Unix milliseconds, the same within one statement. */
  readonly now: string;
  /** Begins to create a table that may be lost with the database's process: `CREATE UNLOGGED TABLE IF NOT EXISTS`. */
  readonly createVolatile: string;
  /** A `SELECT` of `bytes`, those that everything takes. */
  readonly size: string;
}

/** A list of bytes as one parameter. */
export interface Lists {
  /** In a `SELECT`, a row for each value; two lists stand side by side. */
  readonly rows: string;
  of(values: readonly Uint8Array[]): SqlValue;
}

/** A database that an engine keeps what it is given in. */
export interface SqlDatabase {
  readonly dialect: Dialect;
  /**
   * Runs a call in a transaction.
   *
   * @param begin is called again if another transaction was in the way.
   * @param isReplicated whether a replica has to have the effects as well. @default false
   * @returns when the effects are kept as well as the database keeps them.
   * @throws {ProtocolError} `connection_failed`, `timeout`; `unsupported` also if there is no replica.
   */
  run<Result>(begin: () => SqlCall<Result>, isReplicated?: boolean): Promise<Result>;
  /**
   * Tells those who watch `topic`, in every process that uses the database, that something has changed there, which is
   * committed. It may get lost. Never throws.
   *
   * @param hint what has changed.
   */
  wake(topic: string, hint?: string): void;
  /**
   * Calls `onWake` with the hint of each {@link wake} of a topic, until the returned function is called; with `undefined` once
   * it is certain that each is heard from then on, which is never before this returns, and whenever one may have been lost.
   */
  watch(topic: string, onWake: (hint: string | undefined) => void): () => void;
  /** Whether the database forgets everything when its process ends. */
  isVolatile(): Promise<boolean>;
  /** Gives back what this connection holds, when the calls that were made are over. Never rejects. */
  close(): Promise<void>;
}

/** Runs one statement of a call. */
export function* ask(text: string, ...values: readonly SqlValue[]): SqlCall<readonly Row[]> {
  return yield { text, values };
}
