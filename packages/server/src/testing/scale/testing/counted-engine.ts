import type {
  Engine,
  EngineConnection,
  EngineTable,
  TableChange,
  TableEntry,
} from '../../../engine/engine.js';
import { memoryCluster } from '../../../engine/memory.js';
import { BLOCK_MS } from '../../../engine/redis/table.js';
import { Counts, lineBytes, listBytes, scriptBytes, textBytes } from './traffic.js';
import type { VirtualTime } from './virtual-time.js';

/** From a node to the engine or back, in milliseconds. */
const WAY_MS = 1;
/** The time that a call and each byte take in an engine that does one after the other, as Redis, in milliseconds. */
const CALL_MS = 0.015;
const BYTE_MS = 1e-6;

/** The entries of the tables that one node is given. All of them are counted. */
export interface Reader {
  readonly name: string;
  readonly isAlive: boolean;
  /** Whether it reads all entries of a table, and not only some. */
  readonly readsAll: boolean;
  /** Whether it reads an entry. @param record of it, or of the one that was removed. */
  reads(table: string, holder: string, record: string): boolean;
}

/** The engine for tests in virtual time, whose calls and bytes are counted as those of Redis. */
export class CountedEngine {
  readonly counts = new Counts();
  /** How long it was busy in each second, in milliseconds. */
  readonly busyPerSecond: number[] = [];
  /** Until when it does what it was asked. */
  #busyUntil = 0;
  readonly #time: VirtualTime;
  readonly #engine: Engine;
  readonly #tables = new Map<string, SharedTable>();

  constructor(time: VirtualTime) {
    this.#time = time;
    this.#engine = memoryCluster(() => time.timeOrigin + time.now());
  }

  table(name: string): SharedTable {
    const table = this.#tables.get(name) ?? new SharedTable();
    this.#tables.set(name, table);
    return table;
  }

  /** The engine as one node has it. */
  of(reader: Reader): Engine {
    return { connect: () => this.#connect(reader) };
  }

  #connect(reader: Reader): EngineConnection {
    const link = this.#engine.connect();
    const nodes = ['parlance:nodes'];
    const call = <Value>(
      what: string,
      asked: number,
      run: () => Promise<Value>,
      answered: (value: Value) => number,
    ) => this.call(reader, what, asked, run, answered);
    return {
      ...link,
      renew: (name, record, leaseMs, known) =>
        call(
          'renew',
          scriptBytes(nodes, name, record, String(leaseMs), known ?? ''),
          () => link.renew(name, record, leaseMs, known),
          (list) => {
            let bytes =
              lineBytes(3 * (list.nodes?.length ?? 0)) + textBytes(13) + lineBytes(1) + textBytes(16);
            for (const node of list.nodes ?? [])
              bytes += textBytes(node.incarnation) + textBytes(4) + textBytes(node.record);
            return bytes;
          },
        ),
      find: (name) =>
        call(
          'find',
          scriptBytes(nodes, name, reader.name),
          () => link.find(name),
          (found) => (found === undefined ? 4 : listBytes(4, found.record)),
        ),
      findSession: (id) =>
        call(
          'findSession',
          listBytes('HMGET', `parlance:{${id}}`, 'n', 'e'),
          () => link.findSession(id),
          () => listBytes(6, 1),
        ),
      table: (name) => this.#tableOf(reader, name),
    };
  }

  #tableOf(reader: Reader, name: string): EngineTable {
    const shared = this.table(name);
    const key = `parlance:{${name}}`;
    const keys = [key, `${key}:log`];
    /** The position of this reader in the changes. It is given only a part of them. */
    let at = 0;
    return {
      put: (entry, value, expected) => {
        const holder = expected === undefined ? '*' : (expected ?? '');
        const text = value === undefined ? '' : `${value.holder} ${value.record}`;
        const asked = scriptBytes(keys, entry, text, holder);
        const answered = () => listBytes(1, String(shared.position));
        return this.call(
          reader,
          `${name}: put`,
          asked,
          async () => shared.put(entry, value, expected),
          answered,
        );
      },
      read: async () => {
        const asked = scriptBytes(keys);
        const content = await this.call(
          reader,
          `${name}: read`,
          asked,
          async () => shared.read(name, reader),
          () => shared.bytes,
        );
        at = content.position;
        return content;
      },
      changes: async () => {
        const asked = listBytes('XREAD', 'COUNT', '500', 'BLOCK', '1000', 'STREAMS', key, `${at}-0`) + 4;
        const answered = (changes: readonly CountedChange[]) =>
          changes.length === 0 ? 5 : changes.reduce((sum, { bytes }) => sum + bytes, 30 + key.length);
        const wait = async () => {
          if (shared.position === at)
            await new Promise<void>((resolve) => {
              shared.waiting.add(resolve);
              this.#time.at(this.#time.now() + BLOCK_MS, () => {
                shared.waiting.delete(resolve);
                resolve();
              });
            });
          return shared.after(at);
        };
        const changes = await this.call(reader, `${name}: changes`, asked, wait, answered);
        if (changes.length === 0)
          await this.call(
            reader,
            `${name}: changes`,
            scriptBytes(keys, String(at)),
            async () => [],
            () => 4,
          );
        at = changes.at(-1)?.position ?? at;
        if (reader.readsAll) return changes;
        return changes.filter(({ of: { holder, record } }) => reader.reads(name, holder, record));
      },
      shareKey: async (candidate) => candidate,
    };
  }

  /** So many equal calls, which have no effect. */
  async ask(what: string, calls: number, bytes: number): Promise<void> {
    await this.#time.wait(WAY_MS);
    await this.#serve(what, calls, bytes);
  }

  async #serve(what: string, calls: number, bytes: number): Promise<void> {
    const now = this.#time.now();
    const ms = calls * CALL_MS + bytes * BYTE_MS;
    this.counts.add(what, calls, bytes, now);
    this.#busyUntil = Math.max(now, this.#busyUntil) + ms;
    const second = Math.floor(this.#busyUntil / 1_000);
    this.busyPerSecond[second] = (this.busyPerSecond[second] ?? 0) + ms;
    await this.#time.wait(this.#busyUntil - now + WAY_MS);
  }

  /** A call of a node, which gets no answer if it dies before. */
  async call<Value>(
    reader: Reader,
    what: string,
    asked: number,
    run: () => Promise<Value>,
    answered: (value: Value) => number,
  ): Promise<Value> {
    if (!reader.isAlive) return await new Promise<Value>(() => {});
    await this.#time.wait(WAY_MS);
    const value = await run();
    // A question that waits is counted when it is answered.
    await this.#serve(what, 1, asked + answered(value));
    return reader.isAlive ? value : await new Promise<Value>(() => {});
  }
}

interface CountedChange extends TableChange {
  /** The entry, or the one that was removed. */
  readonly of: TableEntry;
  readonly bytes: number;
}

const changeBytes = (position: number, key: string, entry: TableEntry | undefined): number =>
  4 +
  textBytes(`${position}-0`) +
  listBytes('k', key, 'e', entry === undefined ? '' : `${entry.holder} ${entry.record}`);

/** A table that all nodes share. */
class SharedTable {
  readonly waiting = new Set<() => void>();
  readonly entries = new Map<string, TableEntry>();
  readonly #log: CountedChange[] = [];
  /** Of all entries, as they are read. */
  bytes = 0;

  get position(): number {
    return this.#log.length;
  }

  /** As `MemoryTable`, with changes that are never forgotten. */
  put(key: string, entry: TableEntry | undefined, expected?: string | null) {
    const held = this.entries.get(key);
    const { position: before } = this;
    if (held?.holder === entry?.holder && held?.record === entry?.record)
      return { isDone: true, position: before };
    if (expected !== undefined && expected !== (held?.holder ?? null))
      return { isDone: false, position: before };
    if (held !== undefined) this.bytes -= entryBytes(key, held);
    if (entry === undefined) this.entries.delete(key);
    else {
      this.bytes += entryBytes(key, entry);
      this.entries.set(key, entry);
    }
    const position = before + 1;
    const of = (entry ?? held) as TableEntry;
    this.#log.push({ position, key, entry, of, bytes: changeBytes(position, key, entry) });
    for (const wake of this.waiting) wake();
    this.waiting.clear();
    return { isDone: true, position };
  }

  read(name: string, reader: Reader) {
    const { position } = this;
    if (reader.readsAll) return { entries: new Map(this.entries), position };
    const entries = new Map<string, TableEntry>();
    for (const [key, entry] of this.entries)
      if (reader.reads(name, entry.holder, entry.record)) entries.set(key, entry);
    return { entries, position };
  }

  after(position: number): readonly CountedChange[] {
    return this.#log.slice(position, position + 500);
  }
}

const entryBytes = (key: string, { holder, record }: TableEntry): number =>
  textBytes(key) + textBytes(holder.length + 1 + Buffer.byteLength(record));
