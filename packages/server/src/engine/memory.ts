import { randomBytes } from 'node:crypto';
import { systemClock } from '@parlance/protocol/internal';
import type { Engine } from './engine.js';
import { memoryReplies } from './logs/memory.js';
import { MemoryCapacity } from './memory-capacity.js';
import { MemoryLeases } from './memory-leases.js';
import { MemorySessions } from './memory-sessions.js';
import { MemoryTable } from './memory-table.js';

/**
 * Joins servers of one process, for tests: pass the same object as the option `engine` of each of them.
 *
 * @param now Unix milliseconds. @default they advance evenly, even if the clock of the machine is set
 */
export function memoryCluster(now: () => number = evenTime()): Engine {
  const leases = new MemoryLeases(now);
  const tables = new Map<string, MemoryTable>();
  const sessions = new MemorySessions(now);
  const capacities = new MemoryCapacity(now);
  const logs = memoryReplies(now);
  const engine: Engine = {
    secret: randomBytes(32).toString('base64'),
    connectLogs: () => logs,
    connectStore: () => ({
      living: async () => leases.living(),
      async size() {
        let size = logs.size();
        for (const { fields } of sessions.exports())
          for (const [name, value] of fields) size += Buffer.byteLength(name) + value.length;
        return size;
      },
      async *exports() {
        yield* sessions.exports();
        yield* capacities.exports();
        for (const [table, each] of tables) yield* each.exports(table);
        yield* logs.exports();
      },
      async close() {},
    }),
    connect: () => ({
      renew: async (incarnation, record, leaseMs, known) => leases.renew(incarnation, record, leaseMs, known),
      find: async (incarnation) => leases.find(incarnation),
      withdraw: async (incarnation) => leases.withdraw(incarnation),
      table(name) {
        const table = tables.get(name) ?? new MemoryTable();
        tables.set(name, table);
        return table;
      },
      moveSession: async (sessionId, move) => sessions.move(sessionId, move),
      findSession: async (sessionId) => sessions.find(sessionId),
      keepSessions: async (owner, epochs, ttlMs) => sessions.keep(owner, epochs, ttlMs),
      writeSession: async (sessionId, write) => sessions.write(sessionId, write),
      readSession: async (sessionId, names) => sessions.read(sessionId, names),
      claimSession: async (sessionId, move) => sessions.claim(sessionId, move),
      reserveCapacity: async (account, sessionId, capacity) =>
        capacities.reserve(account, sessionId, capacity),
      releaseCapacity: async (account, sessionId) => capacities.release(account, sessionId),
      // It ends with its nodes.
      isVolatile: async () => false,
      releaseSession: async (sessionId, owner, epoch) => sessions.release(sessionId, owner, epoch),
      async close() {},
    }),
  };
  return engine;
}

/** Unix milliseconds from now on, by the monotonic clock. */
function evenTime(): () => number {
  const { timeOrigin } = systemClock;
  return () => Math.floor(timeOrigin + systemClock.now());
}
