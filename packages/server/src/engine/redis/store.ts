import { keyOf, textsOf } from '../../base/keys.js';
import { again } from '../again.js';
import { readHead } from '../logs/redis-head.js';
import { WHOLE } from '../logs/redis-scripts.js';
import { bytesOf, endTimeOf, listOf, optionalBytes, writerOf } from '../logs/redis-values.js';
import type { EngineItem, EngineStore, ReplyItem } from '../store.js';
import { RedisCalls } from './calls.js';
import type { RedisSource } from './client.js';
import type { Lane } from './connection.js';
import type { Script } from './lua.js';
import { CAPACITIES, ENTRIES, NODES, WHOLE_HASH } from './scripts.js';
import { fieldsOf } from './sessions.js';
import { entriesIn } from './table.js';

/** Keys that Redis looks at for one answer, and replies of one owner in one. */
const SCANNED = 500;
const PAGE = 100;

/** All that one server of Redis has under a prefix. */
export function redisStore(prefix: string, source: RedisSource): EngineStore {
  const calls = new RedisCalls(source);
  const lane: Lane = { max: 8, unanswered: 0 };

  const send = (...command: readonly string[]) => again(() => calls.send(lane, ...command));

  async function run(script: Script, keys: readonly string[], ...args: readonly string[]) {
    return listOf(await again(() => calls.runBytes(lane, script, keys, ...args)));
  }

  async function* keys(): AsyncGenerator<string> {
    let cursor = '0';
    do {
      const [next, found] = listOf(
        await send('SCAN', cursor, 'MATCH', `${prefix}:{*`, 'COUNT', String(SCANNED)),
      );
      for (const key of listOf(found)) yield String(key).slice(prefix.length + 1);
      cursor = String(next);
    } while (cursor !== '0');
  }

  async function* sessionAt(id: string): AsyncGenerator<EngineItem> {
    const [left, ...all] = await run(WHOLE_HASH, [`${prefix}:{${id}}`]);
    const fields = fieldsOf(all);
    const [owner, epoch, number, bytes] = ['n', 'e', 'q', 'b'].map((name) => textIn(fields.get(name)));
    if (!owner || bytes === undefined) return;
    for (const name of fields.keys()) if (name.length === 1) fields.delete(name);
    const written = { epoch: Number(epoch), number: Number(number ?? 0) };
    yield { kind: 'session', id, owner, ...written, fields, ttlMs: Number(String(left)) };
  }

  async function* roomsOf(account: string): AsyncGenerator<EngineItem> {
    const key = `${prefix}:{q:${account}}`;
    const found = (await run(CAPACITIES, [key, `${key}:x`])).map(String);
    for (let i = 0; i + 2 < found.length; i += 3) {
      const [session = '', bytes, left] = found.slice(i, i + 3);
      yield { kind: 'capacity', account, session, bytes: Number(bytes), ttlMs: Number(left) };
    }
  }

  async function* repliesOf(owner: string): AsyncGenerator<EngineItem> {
    const base = `${prefix}:{o:${keyOf(owner)}}`;
    for (let from = 0; ; from += PAGE) {
      const ids = listOf(await send('ZRANGE', `${base}:o`, String(from), String(from + PAGE - 1))).map(
        String,
      );
      for (const id of ids) {
        const [reply, metadata] = ['r', 'm'].map((kind) => `${base}:${kind}:${keyOf(id)}`) as [
          string,
          string,
        ];
        const found = await run(WHOLE, [`${base}:a`, reply, metadata], id);
        if (found.length > 0) yield replyOf(found);
      }
      if (ids.length < PAGE) return;
    }
  }

  async function* proofAt(key: string): AsyncGenerator<EngineItem> {
    const [left, ...all] = await run(WHOLE_HASH, [`${prefix}:{t:${key}}`]);
    const fields = fieldsOf(all);
    const owner = textIn(fields.get('o'));
    const hashes = [...fields.keys()].filter((name) => name.startsWith('t:')).map((name) => name.slice(2));
    const session = textsOf(key)[0] ?? '';
    if (owner !== undefined) yield { kind: 'proof', session, owner, hashes, ttlMs: Number(String(left)) };
  }

  async function* tableAt(table: string): AsyncGenerator<EngineItem> {
    const name = `${prefix}:{${table}}`;
    const { entries } = entriesIn((await run(ENTRIES, [name, `${name}:log`])).map(String));
    for (const [key, entry] of entries) yield { kind: 'entry', table, key, entry };
  }

  /** @param key without the prefix. */
  async function* at(key: string): AsyncGenerator<EngineItem> {
    const [, owner] = /^\{o:([^}]*)\}:o$/.exec(key) ?? [];
    if (owner !== undefined) return yield* repliesOf(textsOf(owner)[0] ?? '');
    const [, keyed] = /^\{(.*)\}:key$/s.exec(key) ?? [];
    if (keyed !== undefined) {
      const shared = textIn(bytesOf(await send('GET', `${prefix}:${key}`)));
      if (shared !== undefined) yield { kind: 'key', table: keyed, key: shared };
      return;
    }
    const [, name] = /^\{(.*)\}$/s.exec(key) ?? [];
    if (name === undefined || name === 'shared' || name.startsWith('w:') || name.startsWith('o:')) return;
    if (name.startsWith('sess_')) yield* sessionAt(name);
    else if (name.startsWith('q:')) yield* roomsOf(name.slice(2));
    else if (name.startsWith('t:')) yield* proofAt(name.slice(2));
    else yield* tableAt(name);
  }

  return {
    living: async () => listOf(await calls.runBytes(lane, NODES, [`${prefix}:nodes`])).map(String),
    async size() {
      const info = String(await calls.send(lane, 'INFO', 'memory'));
      return Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
    },
    async *exports() {
      for await (const key of keys()) yield* at(key);
    },
    async close() {
      calls.close();
    },
  };
}

/** An answer of WHOLE. @throws {ProtocolError} `bad_message` if no node has written it so. */
function replyOf(found: readonly unknown[]): ReplyItem {
  const [left, head, endAt, endedBy, why, failure, metadata, writer, epoch, source, isNamed, ...noted] =
    found;
  const at = endTimeOf(endAt);
  const reason = String(why);
  const { idleMs: _, ...written } = writerOf([0, writer, epoch, source]);
  return {
    kind: 'reply',
    head: { ...readHead(bytesOf(head)), ...written },
    metadata: noted.map(notedOf),
    end:
      at === undefined
        ? undefined
        : {
            by: String(endedBy),
            ...(reason !== '' && { why: reason as 'orphaned' }),
            end: { at, failure: optionalBytes(failure), metadata: optionalBytes(metadata) },
          },
    isNamed: String(isNamed) === '1',
    ttlMs: Number(String(left)),
  };
}

/** `part:bytes` */
function notedOf(value: unknown): readonly [number, Uint8Array] {
  const bytes = bytesOf(value);
  const at = bytes.indexOf(0x3a);
  return [Number(Buffer.from(bytes.subarray(0, at)).toString()), new Uint8Array(bytes.subarray(at + 1))];
}

const textIn = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined || bytes.length === 0 ? undefined : Buffer.from(bytes).toString();
