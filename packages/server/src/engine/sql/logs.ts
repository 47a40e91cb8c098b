import { keyOf } from '../../base/keys.js';
import type { ReplyKey, ReplyLogs } from '../logs/logs.js';
import type { SqlCall, SqlDatabase } from './call.js';
import {
  findReply,
  listReplies,
  namedReply,
  proveOwner,
  readParts,
  sharedReplies,
  stateOf,
  vouchFor,
} from './log-reading.js';
import { forget } from './log-tables.js';
import { appendParts, claimReply, endReply, keepReply, openReply } from './log-writing.js';
import { watchReply } from './watching.js';

/**
 * Kept replies in a database that has the tables of `logTables`, and forgets what is over by `sweepLogs`. It is closed with them.
 */
export function sqlReplies(database: SqlDatabase): ReplyLogs {
  const { dialect } = database;

  function run<Result>(begin: () => SqlCall<Result>): Promise<Result> {
    return database.run(begin);
  }

  function topicOf({ id }: Pick<ReplyKey, 'id'>): string {
    return `r:${keyOf(id)}`;
  }

  function nodeTopic(incarnation: string): string {
    return `n:${incarnation}`;
  }

  return {
    open: (head, bounds, liveMs) => run(() => openReply(dialect, head, bounds, liveMs)),

    async claim(key, by, liveMs) {
      const claimed = await run(() => claimReply(dialect, key, by, liveMs));
      if (claimed.outcome === 'done') database.wake(topicOf(key));
      return claimed;
    },

    async append(batch, bounds) {
      const outcome = await run(() => appendParts(dialect, batch, bounds));
      if (outcome === 'done') database.wake(topicOf(batch), String(batch.from + batch.records.length));
      return outcome;
    },

    async end(end, bounds) {
      const { outcome, writer } = await run(() => endReply(dialect, end, bounds));
      if (outcome === 'done') database.wake(topicOf(end));
      if (writer !== undefined) database.wake(nodeTopic(writer), end.id);
      return outcome;
    },

    keep: (key, liveMs) => run(() => keepReply(dialect, key, liveMs)),

    async drop(key) {
      await run(() => forget(dialect, 'id = ?', keyOf(key.id)));
      database.wake(topicOf(key));
    },

    find: (id) => run(() => findReply(dialect, id)),
    named: (owner, name) => run(() => namedReply(dialect, owner, name)),
    read: (id, after) => run(() => readParts(dialect, id, after)),
    follow: (id) => run(() => stateOf(dialect, id, true)),
    list: (owner, before) => run(() => listReplies(dialect, owner, before)),
    shared: () => run(() => sharedReplies(dialect)),

    watch(id, onChanges) {
      const watched = {
        state: () => run(() => stateOf(dialect, id, false)),
        read: (after: number) => run(() => readParts(dialect, id, after)),
        hear: (onWake: (hint: string | undefined) => void) => database.watch(topicOf({ id }), onWake),
      };
      return watchReply(watched, onChanges);
    },

    listen: (by, onEnded) => database.watch(nodeTopic(by), onEnded),

    vouch: (sessionId, owner, hashes, ttlMs) => run(() => vouchFor(dialect, sessionId, owner, hashes, ttlMs)),
    prove: (sessionId, hash) => run(() => proveOwner(dialect, sessionId, hash)),

    close: () => database.close(),
  };
}
