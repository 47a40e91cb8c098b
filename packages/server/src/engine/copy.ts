import { randomBytes } from 'node:crypto';
import { again } from './again.js';
import type { Engine, EngineConnection } from './engine.js';
import { type EngineBounds, framedLength, type ReplyLogs } from './logs/logs.js';
import type { EngineItem, EngineStore, ReplyItem, SessionItem } from './store.js';

/** Why a copy was not begun, or is not whole. */
export type CopyRefusal =
  /** A node of the engine has a lease. */
  | 'alive'
  /** There is something in the engine to which is copied. */
  | 'not_empty'
  /** A copy into the engine was begun, and has not ended. */
  | 'incomplete'
  /** The engine cannot be looked at as a whole. */
  | 'unsupported';

export class CopyRefused extends Error {
  override readonly name = 'CopyRefused';
  readonly why: CopyRefusal;
  readonly side: 'from' | 'to';

  constructor(why: CopyRefusal, side: 'from' | 'to', message: string) {
    super(message);
    this.why = why;
    this.side = side;
  }
}

/** Counts of what was copied. */
export interface CopyCounts {
  sessions: number;
  replies: number;
  /** Of the replies. */
  parts: number;
  /** Of fields and parts. */
  bytes: number;
}

/** A table that has an entry for as long as a copy is not whole. */
const MARK_TABLE = 'copy';
const MARK = 'incomplete';
const NO_BOUNDS: EngineBounds = {
  maxReplies: Number.MAX_SAFE_INTEGER,
  maxReplyBytes: Number.MAX_SAFE_INTEGER,
  maxOwnerBytes: Number.MAX_SAFE_INTEGER,
};

/**
 * Copies all that outlives nodes from one engine to another one that is empty, while no node uses either. One item is in memory at a
 * time. Sealed records are copied as they are. Sessions and replies have as much time left as they had.
 *
 * If it rejects, `to` has an unknown part of it, and has to be emptied.
 *
 * @param onProgress is called after each session and reply.
 * @throws {CopyRefused}
 * @throws {ProtocolError} `connection_failed`, `timeout`, `unsupported`.
 */
export async function copyEngine(
  from: Engine,
  to: Engine,
  onProgress: (counts: Readonly<CopyCounts>) => void = () => {},
): Promise<Readonly<CopyCounts>> {
  await using source = openSide(from, 'from');
  await using target = openSide(to, 'to');
  const { store } = source;
  await assertStopped(store, 'from');
  await assertStopped(target.store, 'to');
  const mark = target.link.table(MARK_TABLE);
  for (const [side, table] of [
    ['from', source.link.table(MARK_TABLE)],
    ['to', mark],
  ] as const) {
    const { entries } = await again(() => table.read());
    if (entries.has(MARK)) throw new CopyRefused('incomplete', side, 'a copy into it was interrupted');
  }
  for await (const { kind } of target.store.exports())
    throw new CopyRefused('not_empty', 'to', `it is not empty: there is a ${WORDS[kind]}`);
  await again(() => mark.put(MARK, { holder: MARK, record: '' }));
  const copying = new Copying(source.logs, target);
  for await (const item of store.exports()) {
    if (await copying.add(item)) onProgress(copying.counts);
  }
  await assertStopped(store, 'from');
  await assertStopped(target.store, 'to');
  await again(() => mark.put(MARK, undefined));
  return copying.counts;
}

/** The names of items in messages. */
const WORDS: Readonly<Record<EngineItem['kind'], string>> = {
  session: 'session',
  capacity: 'reservation of bytes',
  key: 'key of a table',
  entry: 'entry of a table',
  reply: 'kept reply',
  proof: 'proof of a session',
};

async function assertStopped(store: EngineStore, side: 'from' | 'to'): Promise<void> {
  const nodes = await again(() => store.living());
  if (nodes.length > 0)
    throw new CopyRefused(
      'alive',
      side,
      `${nodes.length === 1 ? 'a node uses' : `${nodes.length} nodes use`} it`,
    );
}

interface Side extends AsyncDisposable {
  readonly store: EngineStore;
  readonly link: EngineConnection;
  readonly logs: ReplyLogs | undefined;
}

/** @throws {CopyRefused} `unsupported`. */
function openSide(engine: Engine, side: 'from' | 'to'): Side {
  const store = engine.connectStore?.();
  if (store === undefined)
    throw new CopyRefused('unsupported', side, 'this engine cannot be looked at as a whole');
  const link = engine.connect();
  const logs = engine.connectLogs?.();
  return {
    store,
    link,
    logs,
    async [Symbol.asyncDispose]() {
      await Promise.all([store.close(), link.close(), logs?.close()]);
    },
  };
}

class Copying {
  readonly counts: CopyCounts = { sessions: 0, replies: 0, parts: 0, bytes: 0 };
  readonly #source: ReplyLogs | undefined;
  readonly #link: EngineConnection;
  readonly #logs: ReplyLogs | undefined;

  constructor(source: ReplyLogs | undefined, { link, logs }: Side) {
    this.#source = source;
    this.#link = link;
    this.#logs = logs;
  }

  /** @returns whether that is counted. */
  async add(item: EngineItem): Promise<boolean> {
    switch (item.kind) {
      case 'session':
        return await this.#addSession(item);
      case 'reply':
        return await this.#addReply(item);
      case 'capacity': {
        const { account, session, bytes, ttlMs } = item;
        const capacity = { bytes, maxBytes: Number.MAX_SAFE_INTEGER, ttlMs };
        await again(() => this.#link.reserveCapacity(account, session, capacity));
        return false;
      }
      case 'key':
        await again(() => this.#link.table(item.table).shareKey(item.key));
        return false;
      case 'entry':
        await again(() => this.#link.table(item.table).put(item.key, item.entry));
        return false;
      case 'proof': {
        const { session, owner, hashes, ttlMs } = item;
        await again(() => this.#logsOf().vouch(session, owner, hashes, ttlMs));
        return false;
      }
    }
  }

  async #addSession({ id, owner, epoch, number, fields, ttlMs }: SessionItem): Promise<boolean> {
    if ((await again(() => this.#link.findSession(id))) !== undefined) return false;
    const write = { owner, epoch, number: Math.max(1, number), isFirst: true, ttlMs, remove: [] };
    const written = await again(() => this.#link.writeSession(id, { ...write, set: new Map(fields) }));
    if (written !== 'written')
      throw new Error(`copy: ${id} could not be written (${JSON.stringify(written)})`);
    this.counts.sessions++;
    for (const [name, value] of fields) this.counts.bytes += Buffer.byteLength(name) + value.length;
    return true;
  }

  async #addReply(item: ReplyItem): Promise<boolean> {
    const { head, end, ttlMs } = item;
    const { id, owner, name, epoch } = head;
    const logs = this.#logsOf();
    if ((await again(() => logs.find(id))) !== undefined) return false;
    this.#assertDone(id, await again(() => logs.open(head, NO_BOUNDS, ttlMs)));
    if (name !== undefined && !item.isNamed) await this.#unname(owner, name, ttlMs);
    let [parts, offset] = [0, 0];
    for (;;) {
      const { records = [] } = (await again(async () => await this.#source?.read(id, parts))) ?? {};
      if (records.length === 0) break;
      const until = parts + records.length;
      const metadata = item.metadata.filter(([part]) => part > parts && part <= until);
      const batch = { id, owner, epoch, from: parts, offset, records, metadata };
      this.#assertDone(id, await again(() => logs.append(batch, NO_BOUNDS, ttlMs)));
      const size = records.reduce((sum, record) => sum + framedLength(record), 0);
      [parts, offset] = [until, offset + size];
      this.counts.parts += records.length;
      this.counts.bytes += size;
    }
    if (end === undefined) await again(() => logs.follow(id));
    else {
      const ended = { id, owner, epoch, parts, ttlMs, ...end };
      this.#assertDone(id, await again(() => logs.end(ended, NO_BOUNDS)));
    }
    this.counts.replies++;
    return true;
  }

  /** The name belongs to none, as it did to one that is gone. */
  async #unname(owner: string, name: string, ttlMs: number): Promise<void> {
    const id = `reply_${randomBytes(16).toString('base64url')}`;
    const texts = { principal: undefined, share: undefined, encoding: undefined };
    const head = { id, owner, name, ttlMs, startedAt: Date.now(), ...texts };
    this.#assertDone(id, await again(() => this.#logsOf().open(head, NO_BOUNDS, ttlMs)));
    await again(() => this.#logsOf().drop({ id, owner }));
  }

  #assertDone(id: string, outcome: string): void {
    if (outcome !== 'done') throw new Error(`copy: ${id} could not be written (${outcome})`);
  }

  #logsOf(): ReplyLogs {
    if (this.#logs === undefined)
      throw new CopyRefused('unsupported', 'to', 'it keeps no replies, and there are some');
    return this.#logs;
  }
}
