/** What nodes in processes of their own are told: a URL of Redis or Postgres, {@link MEMORY}, or the path of a file of SQLite. */
export type EngineAddress = string;

/** The memory of the process, which its servers share. */
export const MEMORY: EngineAddress = 'memory:';
