import { ProtocolError } from '@parlance/protocol';
import type {
  SessionMove,
  SessionReading,
  SessionRecord,
  SessionWrite,
  SessionWritten,
} from '../backplane.js';
import type { Lane, RedisLanes } from './lanes.js';
import {
  CLAIM_SESSION,
  FIND_SESSION,
  KEEP_SESSION,
  MOVE_SESSION,
  READ_SESSION,
  RELEASE_SESSION,
  WRITE_SESSION,
} from './scripts.js';

const MAX_MOVES = 128;
/** A session writes one turn at a time. */
const MAX_TURNS = 16_384;
/** Records that are kept with one write. */
const KEEP_BATCH = 64;

/** Where sessions are that have moved, and the records of durable ones. */
export class RedisSessions {
  readonly #prefix: string;
  readonly #lanes: RedisLanes;
  readonly #searches: Lane;
  readonly #moves: Lane = { max: MAX_MOVES, unanswered: 0 };
  readonly #turns: Lane = { max: MAX_TURNS, unanswered: 0 };

  constructor(prefix: string, lanes: RedisLanes, searches: Lane) {
    this.#prefix = prefix;
    this.#lanes = lanes;
    this.#searches = searches;
  }

  async move(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): Promise<SessionRecord> {
    const args = [from, String(epoch), to, String(ttlMs)];
    const answer = await this.#lanes.run(this.#moves, MOVE_SESSION, this.#keysOf(sessionId), ...args);
    const record = recordOf(answer);
    if (record !== undefined) return record;
    throw new ProtocolError('connection_failed', 'Redis: the record of a session is not one of a session');
  }

  async find(sessionId: string): Promise<SessionRecord | undefined> {
    return recordOf(await this.#lanes.run(this.#searches, FIND_SESSION, this.#keysOf(sessionId)));
  }

  async keep(owner: string, epochs: ReadonlyMap<string, number>, ttlMs: number): Promise<readonly string[]> {
    const lost: string[] = [];
    const all = [...epochs];
    for (let i = 0; i < all.length; i += KEEP_BATCH) {
      // The client writes the commands of one turn together.
      const keep = all.slice(i, i + KEEP_BATCH).map(async ([sessionId, epoch]) => {
        const args = [owner, String(epoch), String(ttlMs)];
        const answer = await this.#lanes.run(this.#moves, KEEP_SESSION, this.#keysOf(sessionId), ...args);
        if (Number(answer) === 0) lost.push(sessionId);
      });
      await Promise.all(keep);
    }
    return lost;
  }

  async write(sessionId: string, write: SessionWrite): Promise<SessionWritten> {
    const { owner, epoch, number, isFirst, set, remove, ttlMs } = write;
    const head = [owner, epoch, number, ttlMs, isFirst ? 1 : 0, 2 * set.size].map(String);
    const args = [...head, ...[...set].flat(), ...remove];
    const answer = await this.#lanes.runBytes(this.#turns, WRITE_SESSION, this.#keysOf(sessionId), ...args);
    const outcome = String(answer);
    if (outcome === 'written' || outcome === 'fenced' || outcome === 'gone') return outcome;
    throw new ProtocolError('connection_failed', 'Redis: a turn was answered with something else');
  }

  async read(sessionId: string, names: readonly string[]): Promise<SessionReading | undefined> {
    const answer = await this.#lanes.runBytes(
      this.#searches,
      READ_SESSION,
      this.#keysOf(sessionId),
      ...names,
    );
    const record = recordOf(answer);
    const values = Array.isArray(answer) ? (answer as unknown[]).slice(2) : [];
    return record && { ...record, fields: fieldsOf(names.flatMap((name, i) => [name, values[i]])) };
  }

  async claim(sessionId: string, move: SessionMove): Promise<SessionReading | undefined> {
    const args = [move.from, String(move.epoch), move.to, String(move.ttlMs)];
    const answer = await this.#lanes.runBytes(this.#moves, CLAIM_SESSION, this.#keysOf(sessionId), ...args);
    if (!Array.isArray(answer) || answer.length === 0) return undefined;
    const fields = fieldsOf(answer as unknown[]);
    for (const name of fields.keys()) if (name.length === 1) fields.delete(name);
    return { owner: move.to, epoch: move.epoch + 1, fields };
  }

  async release(sessionId: string, owner: string, epoch: number): Promise<void> {
    await this.#lanes.run(this.#moves, RELEASE_SESSION, this.#keysOf(sessionId), owner, String(epoch));
  }

  #keysOf(sessionId: string): readonly [string] {
    return [`${this.#prefix}:{${sessionId}}`];
  }
}

/** `undefined` if there is none, or something that no node has written. */
function recordOf(reply: unknown): SessionRecord | undefined {
  const [owner, epoch] = Array.isArray(reply) ? (reply as unknown[]) : [];
  const number = Number(String(epoch));
  if (owner === null || owner === undefined || !Number.isSafeInteger(number) || number < 0) return undefined;
  return { owner: String(owner), epoch: number };
}

/** Names and values, one after the other; a value may be missing. */
function fieldsOf(list: readonly unknown[]): Map<string, Uint8Array> {
  const fields = new Map<string, Uint8Array>();
  for (let i = 0; i + 1 < list.length; i += 2) {
    const value = list[i + 1];
    // A view of a part of what the client has received, which would keep all of it alive.
    if (value instanceof Uint8Array) fields.set(String(list[i]), new Uint8Array(value));
  }
  return fields;
}
