import { accountTables } from './accounts.js';
import type { Dialect } from './call.js';
import { logTables } from './log-tables.js';
import { sessionTables } from './sessions.js';
import { tableTables } from './tables.js';

/**
 * The steps that bring a database from each version of the schema to the next one, beginning with an empty one.
 * Released steps are never changed: a change is a step more.
 */
export const STEPS: readonly ((dialect: Dialect) => readonly string[])[] = [
  (dialect) => [
    ...sessionTables(dialect),
    ...accountTables(dialect),
    ...tableTables(dialect),
    ...logTables(dialect),
  ],
];
