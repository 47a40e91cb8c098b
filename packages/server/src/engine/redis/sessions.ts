import { setImmediate } from 'node:timers';
import { ProtocolError } from '@parlance/protocol';
import type {
  CapacityRequest,
  NeedsCapacity,
  SessionMove,
  SessionReading,
  SessionRecord,
  SessionWrite,
  SessionWritten,
} from '../engine.js';
import type { RedisCalls } from './calls.js';
import type { Lane } from './connection.js';
import {
  KEEP_SESSION,
  READ_SESSION,
  RELEASE_CAPACITY,
  RELEASE_SESSION,
  RESERVE_CAPACITY,
  TAKE_SESSION,
  WRITE_SESSION,
} from './scripts.js';
import { Together } from './together.js';

/** Commands that may be unanswered; with more, none is sent. */
const MAX_MOVES = 128;
const MAX_SEARCHES = 64;
/** A session writes one commit at a time. */
const MAX_COMMITS = 16_384;
/** Records that are kept with one write. */
const KEEP_BATCH = 64;
/** How long a replica may take, in milliseconds. The connection does nothing else meanwhile. */
const REPLICA_MS = 500;

const OUTCOMES: readonly SessionWritten[] = ['written', 'fenced', 'gone', 'behind'];

/** The nodes of sessions that have moved, and the records of others. */
export class RedisSessions {
  /** Of one node. */
  protected readonly calls: RedisCalls;
  protected readonly searches: Lane = { max: MAX_SEARCHES, unanswered: 0 };
  readonly #prefix: string;
  readonly #moves: Lane = { max: MAX_MOVES, unanswered: 0 };
  readonly #commits: Together;
  readonly #capacities: Together;
  readonly #waits: Lane = { max: MAX_COMMITS, unanswered: 0 };
  /** Answered with the number of replicas that have all that was written before it is sent. */
  #nextWait: Promise<unknown> | undefined;
  /** The one before is over. */
  #lastWait: Promise<unknown> = Promise.resolve();

  /** @param prefix of every key. */
  constructor(prefix: string, calls: RedisCalls) {
    this.#prefix = prefix;
    this.calls = calls;
    this.#commits = new Together(calls, WRITE_SESSION, MAX_COMMITS);
    this.#capacities = new Together(calls, RESERVE_CAPACITY, MAX_COMMITS);
  }

  /** Sends what is about to be sent. Returns whether there was something. */
  protected sendAll(): boolean {
    const hasCommits = this.#commits.send();
    return this.#capacities.send() || hasCommits;
  }

  async moveSession(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): Promise<SessionRecord> {
    this.#commits.send();
    const args = [from, String(epoch), to, String(ttlMs)];
    const answer = await this.calls.run(this.#moves, TAKE_SESSION, this.#keysOf(sessionId), ...args, '');
    const record = recordOf(answer);
    if (record !== undefined) return record;
    throw new ProtocolError('connection_failed', 'Redis: the record of a session is not one of a session');
  }

  async findSession(sessionId: string): Promise<SessionRecord | undefined> {
    this.#commits.send();
    return recordOf(await this.calls.run(this.searches, READ_SESSION, this.#keysOf(sessionId)));
  }

  async keepSessions(
    owner: string,
    epochs: ReadonlyMap<string, number>,
    ttlMs: number,
  ): Promise<readonly string[]> {
    this.#commits.send();
    const lost: string[] = [];
    const all = [...epochs];
    for (let i = 0; i < all.length; i += KEEP_BATCH) {
      const some = all.slice(i, i + KEEP_BATCH);
      const calls = some.map(([sessionId, epoch]) => ({
        keys: this.#keysOf(sessionId),
        args: [owner, String(epoch), String(ttlMs)],
      }));
      for (const [j, answer] of (await this.calls.runMany(this.#moves, KEEP_SESSION, calls)).entries()) {
        if (answer.status === 'rejected') throw answer.reason;
        if (Number(answer.value) === 0) lost.push(some[j]?.[0] as string);
      }
    }
    return lost;
  }

  async writeSession(sessionId: string, write: SessionWrite): Promise<SessionWritten | NeedsCapacity> {
    const { owner, epoch, number, set, remove, ttlMs, maxBytes = '', after = 0, isReplicated } = write;
    if (isReplicated === true) await this.checkReplica();
    const kind = write.replaces === true ? 'replace' : write.isFirst ? 'first' : '';
    const args: (string | Uint8Array)[] = [owner, String(epoch), String(number), String(ttlMs), kind];
    args.push(String(maxBytes), String(2 * set.size), String(after));
    for (const [name, value] of set) args.push(name, value);
    for (const name of remove) args.push(name);
    const written = this.#commits.run(this.#keysOf(sessionId), args);
    const replicated = isReplicated === true ? this.#replicated(written) : undefined;
    const answer = await written;
    await replicated;
    if (Array.isArray(answer)) return { needed: Number(String(answer[0])) };
    const outcome = String(answer);
    const known = OUTCOMES.find((each) => each === outcome);
    if (known !== undefined) return known;
    throw new ProtocolError('connection_failed', 'Redis: a commit was answered with something else');
  }

  async readSession(sessionId: string, names: readonly string[]): Promise<SessionReading | undefined> {
    this.#commits.send();
    const key = this.#keysOf(sessionId);
    const answer = await this.calls.runBytes(this.searches, READ_SESSION, key, ...names);
    const record = recordOf(answer);
    const values = Array.isArray(answer) ? (answer as unknown[]).slice(2) : [];
    return record && { ...record, fields: fieldsOf(names.flatMap((name, i) => [name, values[i]])) };
  }

  async claimSession(sessionId: string, move: SessionMove): Promise<SessionReading | undefined> {
    this.#commits.send();
    const args = [move.from, String(move.epoch), move.to, String(move.ttlMs), 'claim'];
    const answer = await this.calls.runBytes(this.#moves, TAKE_SESSION, this.#keysOf(sessionId), ...args);
    if (!Array.isArray(answer) || answer.length === 0) return undefined;
    const fields = fieldsOf(answer as unknown[]);
    for (const name of fields.keys()) if (name.length === 1) fields.delete(name);
    return { owner: move.to, epoch: move.epoch + 1, fields };
  }

  async releaseSession(sessionId: string, owner: string, epoch: number): Promise<void> {
    this.#commits.send();
    await this.calls.run(this.#moves, RELEASE_SESSION, this.#keysOf(sessionId), owner, String(epoch));
  }

  async reserveCapacity(
    account: string,
    sessionId: string,
    capacity: CapacityRequest,
  ): Promise<number | undefined> {
    const args = [sessionId, capacity.bytes, capacity.maxBytes, capacity.ttlMs].map(String);
    const answer = String(await this.#capacities.run(this.#capacityKeysOf(account), args));
    return answer === '' ? undefined : Number(answer);
  }

  async releaseCapacity(account: string, sessionId: string): Promise<void> {
    this.#capacities.send();
    await this.calls.run(this.#moves, RELEASE_CAPACITY, this.#capacityKeysOf(account), sessionId);
  }

  async checkReplica(): Promise<void> {
    // WAIT says nothing of keys, and would be answered by any server.
    if (!this.calls.canConfirm)
      throw new ProtocolError('unsupported', 'Redis of several servers cannot confirm a commit by a replica');
  }

  async isVolatile(): Promise<boolean> {
    return !/^aof_enabled:1/m.test(await this.calls.info(this.searches));
  }

  /**
   * Waits until a replica has what was written.
   *
   * @throws {ProtocolError} `timeout`. The same write can be made again.
   */
  async #replicated(written: Promise<unknown>): Promise<void> {
    await written;
    const { wire } = this.calls;
    const replicas = Number(await this.#wait());
    // Redis counts only what was written over the connection that asks.
    if (wire === undefined || this.calls.wire !== wire)
      throw new ProtocolError(
        'timeout',
        'the connection to Redis was lost before a replica has confirmed a commit',
      );
    if (replicas < 1)
      throw new ProtocolError(
        'timeout',
        `no replica of Redis has confirmed a commit within ${REPLICA_MS} ms`,
      );
  }

  /** One for all writes that were answered meanwhile, and one at a time: a second one would make others wait too long. */
  #wait(): Promise<unknown> {
    this.#nextWait ??= this.#lastWait
      .then(() => new Promise((resolve) => setImmediate(resolve)))
      .then(() => {
        this.#nextWait = undefined;
        const wait = this.calls.wait(this.#waits, REPLICA_MS, 'WAIT', '1', String(REPLICA_MS));
        this.#lastWait = wait.catch(() => {});
        return wait;
      });
    return this.#nextWait;
  }

  #capacityKeysOf(account: string): readonly [string, string] {
    const key = `${this.#prefix}:{q:${account}}`;
    return [key, `${key}:x`];
  }

  #keysOf(sessionId: string): readonly [string] {
    return [`${this.#prefix}:{${sessionId}}`];
  }
}

/** `undefined` if there is none, or something that no node has written. */
function recordOf(reply: unknown): SessionRecord | undefined {
  const [owner, epoch] = Array.isArray(reply) ? (reply as unknown[]) : [];
  const number = Number(String(epoch));
  // It may say only that the session is over.
  if (
    owner === null ||
    owner === undefined ||
    String(owner) === '' ||
    !Number.isSafeInteger(number) ||
    number < 0
  )
    return undefined;
  return { owner: String(owner), epoch: number };
}

/** Names and values, one after the other; a value may be missing. */
export function fieldsOf(list: readonly unknown[]): Map<string, Uint8Array> {
  const fields = new Map<string, Uint8Array>();
  for (let i = 0; i + 1 < list.length; i += 2) {
    const value = list[i + 1];
    // A view of a part of what the client has received, which would keep all of it alive.
    if (value instanceof Uint8Array) fields.set(String(list[i]), new Uint8Array(value));
  }
  return fields;
}
