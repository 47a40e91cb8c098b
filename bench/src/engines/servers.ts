import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startPostgres } from '../../../packages/server/src/engine/testing/postgres-server.js';
import { startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import type { EngineName } from './node.js';

/** The file or server behind an engine. */
export interface EngineServer {
  /** The file or URL. */
  readonly at: string;
  /** Bytes that it has written to its log; `undefined` if the node writes them itself; 0 if there is no log. */
  written(): Promise<number | undefined>;
  close(): Promise<void>;
}

export const ENGINES: readonly EngineName[] = ['memory', 'sqlite', 'redis', 'postgres'];

/** Each as it keeps what was answered when its process dies, and loses a second or two with the machine. */
export const START: Readonly<Record<EngineName, () => Promise<EngineServer>>> = {
  memory: async () => ({ at: '', written: async () => 0, async close() {} }),

  async sqlite() {
    const folder = mkdtempSync(join(tmpdir(), 'parlance-bench-'));
    return {
      at: join(folder, 'parlance.db'),
      written: async () => undefined,
      close: async () => rmSync(folder, { recursive: true }),
    };
  },

  async redis() {
    const kept = ['--appendonly', 'yes', '--appendfsync', 'everysec'];
    const server = await startRedis(...kept, '--auto-aof-rewrite-percentage', '0');
    return {
      at: server.url,
      async written() {
        const info = await server.client.info('persistence');
        return Number(/^aof_current_size:(\d+)/m.exec(info)?.[1]);
      },
      async close() {
        await server[Symbol.asyncDispose]();
      },
    };
  },

  async postgres() {
    const server = await startPostgres();
    return {
      at: server.url,
      async written() {
        const [row] = await server.query("SELECT pg_current_wal_lsn() - '0/0' AS bytes");
        return Number(row?.['bytes']);
      },
      async close() {
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
