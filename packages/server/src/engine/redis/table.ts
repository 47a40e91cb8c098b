import { ProtocolError } from '@parlance/protocol';
import { pause } from '../../base/repeat.js';
import {
  ENGINE_TIMEOUT_MS,
  type EngineTable,
  entryOf,
  MAX_CHANGES,
  type TableChange,
  type TableContent,
  type TableEntry,
  type TablePut,
} from '../engine.js';
import { failed, type RedisCalls } from './calls.js';
import type { RedisCommands, RedisSource } from './client.js';
import { type Lane, RedisConnection } from './connection.js';
import { CHANGES, ENTRIES, listOf, PUT_ENTRY, SHARE_KEY } from './scripts.js';

/** Commands that may be unanswered; with more, none is sent. */
const MAX_OTHERS = 8;
const MAX_PUTS = 64;
/** How often Redis is asked for changes over a client that opens no second connection, in milliseconds. */
const POLL_MS = 100;
/** How long Redis holds a question for changes, in milliseconds. */
export const BLOCK_MS = 1_000;

/** A table in Redis, as one node uses it. */
export class RedisTable implements EngineTable {
  readonly #calls: RedisCalls;
  readonly #keys: readonly [string, string];
  readonly #keyOfAll: readonly [string];
  readonly #others: Lane = { max: MAX_OTHERS, unanswered: 0 };
  readonly #puts: Lane = { max: MAX_PUTS, unanswered: 0 };
  readonly #waits: Lane = { max: 1, unanswered: 0 };
  /** Redis holds a blocking command until there is a change; `undefined` if that would hold up everything else. */
  readonly #waiting: RedisConnection<RedisCommands> | undefined;

  /** @param name its key, with which the others begin. */
  constructor(name: string, calls: RedisCalls, source: RedisSource) {
    this.#calls = calls;
    this.#keys = [name, `${name}:log`];
    this.#keyOfAll = [`${name}:key`];
    this.#waiting = source.isShared ? undefined : new RedisConnection({ open: () => source.open() });
  }

  async put(key: string, entry: TableEntry | undefined, expected?: string | null): Promise<TablePut> {
    const text = entry === undefined ? '' : `${entry.holder} ${entry.record}`;
    const holder = expected === undefined ? '*' : (expected ?? '');
    const answer = await this.#calls.run(this.#puts, PUT_ENTRY, this.#keys, key, text, holder);
    const [isDone, position] = listOf(answer);
    return { isDone: isDone === '1', position: Number(position) };
  }

  async read(): Promise<TableContent> {
    return entriesIn(listOf(await this.#calls.run(this.#others, ENTRIES, this.#keys)));
  }

  async changes(after: number): Promise<readonly TableChange[] | undefined> {
    await this.#calls.check(this.#others);
    if (this.#waiting === undefined) await pause(POLL_MS);
    else {
      try {
        const changes = await this.#wait(this.#waiting, after);
        if (changes !== 'none') return changes;
      } catch (error) {
        throw failed(error);
      }
    }
    // A stream that was emptied has no changes either.
    return await this.#poll(after);
  }

  /** @returns `'none'` if there was none in time; `undefined` if the next one is not known any more. */
  async #wait(
    connection: RedisConnection<RedisCommands>,
    after: number,
  ): Promise<readonly TableChange[] | 'none' | undefined> {
    const question = ['COUNT', String(MAX_CHANGES), 'BLOCK', String(BLOCK_MS), 'STREAMS', this.#keys[1]];
    const ask = ({ send }: RedisCommands) => send(['XREAD', ...question, `${after}-0`]);
    const reply = await connection.run(this.#waits, ask, BLOCK_MS + ENGINE_TIMEOUT_MS);
    if (reply === null || reply === undefined) return 'none';
    const changes = entriesOf(reply).map(changeOf);
    return changes[0]?.position === after + 1 ? changes : undefined;
  }

  async #poll(after: number): Promise<readonly TableChange[] | undefined> {
    const fields = listOf(await this.#calls.run(this.#others, CHANGES, this.#keys, String(after)));
    if (fields[0] === 'gap') return undefined;
    const changes: TableChange[] = [];
    for (let i = 0; i + 2 < fields.length; i += 3) {
      const [position, key = '', text = ''] = fields.slice(i, i + 3);
      changes.push({ position: Number(position), key, entry: entryOf(text) });
    }
    return changes;
  }

  async shareKey(candidate: string): Promise<string> {
    const [key = ''] = listOf(await this.#calls.run(this.#others, SHARE_KEY, this.#keyOfAll, candidate));
    return key;
  }

  close(): void {
    this.#waiting?.close();
  }
}

/** An answer of ENTRIES. */
export function entriesIn(fields: readonly string[]): TableContent {
  const entries = new Map<string, TableEntry>();
  let position = 0;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const [key = '', text = ''] = fields.slice(i, i + 2);
    const entry = entryOf(text);
    if (key === '') position = Number(text);
    else if (entry !== undefined) entries.set(key, entry);
  }
  return { entries, position };
}

/** The entries of the one stream that was read: a list of pairs in RESP2, a map in RESP3, as each client gives it. */
function entriesOf(reply: unknown): unknown[] {
  const [first, second] = Array.isArray(reply) ? reply : Object.entries(Object(reply));
  const entries = Array.isArray(first) ? first[1] : second;
  if (Array.isArray(entries)) return entries;
  throw new ProtocolError('connection_failed', 'Redis answered XREAD with something that is not a list');
}

/** An entry is its ID and its fields: `k`, the key, `e` and the entry. */
function changeOf(entry: unknown): TableChange {
  const [id, fields] = Array.isArray(entry) ? entry : [];
  const [, key, , text] = Array.isArray(fields) ? fields : [];
  return { position: Number.parseInt(String(id), 10), key: String(key), entry: entryOf(String(text)) };
}
