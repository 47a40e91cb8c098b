/**
 * The engine for nodes in processes of their own: a URL of Redis or Postgres, {@link MEMORY}, or the path of a SQLite
 * file.
 */
export type EngineAddress = string;

/** The memory of the process, which its servers share. */
export const MEMORY: EngineAddress = 'memory:';
