import { ProtocolError } from '@parlance/protocol';
import { ENGINE_TIMEOUT_MS, entryOf, MAX_CHANGES, type TableChange } from '../backplane.js';
import type { RedisCommands, RedisSource } from './client.js';
import { type Lane, RedisConnection } from './connection.js';

/** How long Redis holds a question for changes, in milliseconds. */
export const BLOCK_MS = 1_000;

/** Waits for changes of a table on a connection of its own, because Redis holds a blocking command until there is one. */
export class RedisChanges {
  readonly #stream: string;
  readonly #connection: RedisConnection<RedisCommands>;
  readonly #lane: Lane = { max: 1, unanswered: 0 };

  /** @param stream its key. */
  constructor(stream: string, source: RedisSource) {
    this.#stream = stream;
    this.#connection = new RedisConnection({ open: () => source.open() });
  }

  /**
   * The changes after a position, at once or when there is one.
   *
   * @returns `'none'` if there was none in time; `undefined` if the next one is not known any more.
   * @throws {ProtocolError} `timeout`, and what the client throws.
   */
  async read(after: number): Promise<readonly TableChange[] | 'none' | undefined> {
    const question = ['COUNT', String(MAX_CHANGES), 'BLOCK', String(BLOCK_MS), 'STREAMS'];
    const ask = ({ send }: RedisCommands) => send('XREAD', ...question, this.#stream, `${after}-0`);
    const reply = await this.#connection.run(this.#lane, ask, BLOCK_MS + ENGINE_TIMEOUT_MS);
    if (reply === null || reply === undefined) return 'none';
    const changes = entriesOf(reply).map(changeOf);
    return changes[0]?.position === after + 1 ? changes : undefined;
  }

  close(): void {
    this.#connection.close();
  }
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
