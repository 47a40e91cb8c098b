import { type Engine, memoryCluster } from '@parlance/server';
import { postgres } from '@parlance/server/postgres';
import { redis } from '@parlance/server/redis';
import { sqlite } from '@parlance/server/sqlite';
import { type EngineAddress, MEMORY } from './engine-address.js';

/** The engine of a node that was told its address. */
export function engineAt(address: EngineAddress): Engine {
  if (address === MEMORY) return memoryCluster();
  if (address.startsWith('redis:')) return redis({ url: address });
  return address.startsWith('postgres:') ? postgres(address) : sqlite(address);
}
