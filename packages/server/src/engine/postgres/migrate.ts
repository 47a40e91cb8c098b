import type { PoolClient } from 'pg';
import { leaseTables } from '../sql/leases.js';
import { STEPS } from '../sql/schema.js';
import { DIALECT } from './dialect.js';
import { unsuitable } from './errors.js';

/** How long a step may take, in milliseconds. */
const STEP_MS = 60_000;

/**
 * Creates the schema, or brings it to the version of this server; nodes that begin at once do so one after the other. Leases may
 * have gone with the server's process, or with a backup.
 *
 * @throws {ProtocolError} `unsupported` if the schema is newer; what Postgres says if this user may not create it.
 */
export async function migrate(client: PoolClient, schema: string): Promise<void> {
  if (await isPresent(client, schema)) return;
  await client.query(`BEGIN; SET LOCAL statement_timeout TO ${STEP_MS}`);
  try {
    await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`parlance:${schema}`]);
    // A user who may not create one may use one.
    const found = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
    if (found.rows.length === 0) await client.query(`CREATE SCHEMA "${schema}"`);
    let version = await versionOf(client, schema);
    if (version === undefined) await client.query('CREATE TABLE schema_version (version BIGINT NOT NULL)');
    version ??= 0;
    assertKnown(version, schema);
    for (const step of STEPS.slice(version)) for (const text of step(DIALECT)) await client.query(text);
    for (const text of leaseTables(DIALECT)) await client.query(text);
    await client.query('DELETE FROM schema_version');
    await client.query('INSERT INTO schema_version (version) VALUES ($1)', [STEPS.length]);
    await client.query('COMMIT');
  } catch (error) {
    // The connection may be lost, and why is what counts.
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

async function isPresent(client: PoolClient, schema: string): Promise<boolean> {
  const version = await versionOf(client, schema);
  if (version !== undefined) assertKnown(version, schema);
  return version === STEPS.length && (await hasTable(client, schema, 'leases'));
}

async function versionOf(client: PoolClient, schema: string): Promise<number | undefined> {
  if (!(await hasTable(client, schema, 'schema_version'))) return undefined;
  const { rows } = await client.query('SELECT version FROM schema_version');
  return Number((rows[0] as { readonly version: number } | undefined)?.version ?? 0);
}

async function hasTable(client: PoolClient, schema: string, table: string): Promise<boolean> {
  const { rows } = await client.query('SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = $2', [
    schema,
    table,
  ]);
  return rows.length > 0;
}

function assertKnown(version: number, schema: string): void {
  if (version > STEPS.length)
    throw unsuitable(
      `the schema "${schema}" is of a newer server (version ${version}, this one knows ${STEPS.length}): upgrade this server`,
    );
}
