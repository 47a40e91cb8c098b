import { type Engine, memoryCluster } from '@parlance/server';
import { postgres } from '@parlance/server/postgres';
import { redis } from '@parlance/server/redis';
import { sqlite } from '@parlance/server/sqlite';

/** What nodes in processes of their own are told: a URL of Redis or Postgres, {@link MEMORY}, or the path of a file of SQLite. */
export type EngineAddress = string;

/** The memory of the process, which its servers share. */
export const MEMORY: EngineAddress = 'memory:';

export function engineAt(address: EngineAddress): Engine {
  if (address === MEMORY) return memoryCluster();
  if (address.startsWith('redis:')) return redis({ url: address });
  return address.startsWith('postgres:') ? postgres(address) : sqlite(address);
}
