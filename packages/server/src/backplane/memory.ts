import { randomBytes } from 'node:crypto';
import type { Backplane, ListedNode } from './backplane.js';
import { Expiring } from './expiring.js';
import { MemoryAgents } from './memory-agents.js';
import { memoryReplies } from './memory-replies.js';
import { MemoryRooms } from './memory-rooms.js';
import { MemorySessions } from './memory-sessions.js';
import type { ReplyBackplane } from './replies.js';

interface Lease {
  /** What a node says of itself. */
  readonly record: string;
  /** Milliseconds of the clock. */
  readonly endsAt: number;
}

/**
 * Joins servers of one process, for tests: pass the same object as the option `engine` of each of them.
 *
 * @param now Unix milliseconds.
 */
export function memoryCluster(now: () => number = Date.now): Backplane {
  const leases = new Expiring<Lease>(now);
  const agents = new MemoryAgents();
  const sessions = new MemorySessions(now);
  const rooms = new MemoryRooms(now);
  const replies = memoryReplies(now);
  let key: string | undefined;
  const listed = (incarnation: string, { record, endsAt }: Lease): ListedNode => {
    return { incarnation, record, leaseMs: endsAt - now() };
  };
  const backplane: ReplyBackplane = {
    secret: randomBytes(32).toString('base64'),
    connectReplies: () => replies,
    connect: () => ({
      async renew(incarnation, record, leaseMs) {
        leases.set(incarnation, { record, endsAt: now() + leaseMs });
        const nodes = [...leases].map(([each, lease]) => listed(each, lease));
        return { nodes, now: now(), hasForgotten: false };
      },
      async find(incarnation) {
        const lease = leases.get(incarnation);
        return lease && listed(incarnation, lease);
      },
      async withdraw(incarnation) {
        leases.delete(incarnation);
      },
      putAgent: async (key, entry, expected) => agents.put(key, entry, expected),
      agents: async () => agents.table(),
      changes: (after) => agents.changes(after),
      moveSession: async (sessionId, move) => sessions.move(sessionId, move),
      findSession: async (sessionId) => sessions.find(sessionId),
      keepSessions: async (owner, epochs, ttlMs) => sessions.keep(owner, epochs, ttlMs),
      writeSession: async (sessionId, write) => sessions.write(sessionId, write),
      readSession: async (sessionId, names) => sessions.read(sessionId, names),
      claimSession: async (sessionId, move) => sessions.claim(sessionId, move),
      reserveRoom: async (account, sessionId, room) => rooms.reserve(account, sessionId, room),
      releaseRoom: async (account, sessionId) => rooms.release(account, sessionId),
      // It ends with its nodes.
      isVolatile: async () => false,
      releaseSession: async (sessionId, owner, epoch) => sessions.release(sessionId, owner, epoch),
      async shareKey(candidate) {
        key ??= candidate;
        return key;
      },
      async close() {},
    }),
  };
  return backplane;
}
