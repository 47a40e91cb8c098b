import {
  type EngineTable,
  entryOf,
  type TableChange,
  type TableContent,
  type TableEntry,
  type TablePut,
} from '../backplane.js';
import { failed, type RedisCalls } from './calls.js';
import { RedisChanges } from './changes.js';
import type { RedisSource } from './client.js';
import type { Lane } from './connection.js';
import { CHANGES, ENTRIES, listOf, PUT_ENTRY, SHARE_KEY } from './scripts.js';

/** Commands that may be unanswered; with more, none is sent. */
const MAX_OTHERS = 8;
const MAX_PUTS = 64;
/** How often Redis is asked for changes over a client that opens no second connection, in milliseconds. */
const POLL_MS = 100;

/** A table in Redis, as one node uses it. */
export class RedisTable implements EngineTable {
  readonly #calls: RedisCalls;
  readonly #keys: readonly [string, string];
  readonly #keyOfAll: readonly [string];
  readonly #others: Lane = { max: MAX_OTHERS, unanswered: 0 };
  readonly #puts: Lane = { max: MAX_PUTS, unanswered: 0 };
  /** `undefined` if waiting for a change would hold up everything else. */
  readonly #changes: RedisChanges | undefined;

  /** @param name its key, with which the others begin. */
  constructor(name: string, calls: RedisCalls, source: RedisSource) {
    this.#calls = calls;
    this.#keys = [name, `${name}:log`];
    this.#keyOfAll = [`${name}:key`];
    this.#changes = source.isShared ? undefined : new RedisChanges(this.#keys[1], source);
  }

  async put(
    key: string,
    entry: TableEntry | undefined,
    expected: string | null | undefined,
  ): Promise<TablePut> {
    const text = entry === undefined ? '' : `${entry.holder} ${entry.record}`;
    const holder = expected === undefined ? '*' : (expected ?? '');
    const answer = await this.#calls.run(this.#puts, PUT_ENTRY, this.#keys, key, text, holder);
    const [isDone, position] = listOf(answer);
    return { isDone: isDone === '1', position: Number(position) };
  }

  async read(): Promise<TableContent> {
    const fields = listOf(await this.#calls.run(this.#others, ENTRIES, this.#keys));
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

  async changes(after: number): Promise<readonly TableChange[] | undefined> {
    await this.#calls.check(this.#others);
    if (this.#changes === undefined) await pause(POLL_MS);
    else {
      try {
        const changes = await this.#changes.read(after);
        if (changes !== 'none') return changes;
      } catch (error) {
        throw failed(error);
      }
    }
    // A stream that was emptied has no changes either.
    return await this.#poll(after);
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
    this.#changes?.close();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}
