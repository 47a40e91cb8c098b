import type {
  SessionMove,
  SessionReading,
  SessionRecord,
  SessionWrite,
  SessionWritten,
} from './backplane.js';

interface Entry extends SessionRecord {
  /** Milliseconds of the clock. */
  endsAt: number;
  /** The number of the last write; 0 before the first of a node. */
  written: number;
  /** Of durable sessions. */
  readonly fields: Map<string, Uint8Array>;
}

/** Where sessions are that have moved within one process, and the records of durable ones. */
export class MemorySessions {
  readonly #entries = new Map<string, Entry>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  move(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): SessionRecord {
    const found = this.find(sessionId);
    if (found !== undefined && (found.owner !== from || found.epoch !== epoch)) return found;
    return this.#put(sessionId, { owner: to, epoch: epoch + 1 }, ttlMs);
  }

  find(sessionId: string): SessionRecord | undefined {
    const entry = this.#entryOf(sessionId);
    return entry && { owner: entry.owner, epoch: entry.epoch };
  }

  keep(owner: string, epochs: ReadonlyMap<string, number>, ttlMs: number): readonly string[] {
    return [...epochs].flatMap(([sessionId, epoch]) => {
      const found = this.#entryOf(sessionId);
      if (found !== undefined && !isOf(found, owner, epoch)) return [sessionId];
      if (found === undefined) this.#put(sessionId, { owner, epoch }, ttlMs);
      else found.endsAt = this.#now() + ttlMs;
      return [];
    });
  }

  write(sessionId: string, write: SessionWrite): SessionWritten {
    const { owner, epoch, number, isFirst, set, remove, ttlMs } = write;
    const found = this.#entryOf(sessionId);
    if (found !== undefined && !isOf(found, owner, epoch)) return 'fenced';
    if (!isFirst && (found === undefined || (found.written === 0 && found.fields.size === 0))) return 'gone';
    if (found === undefined) this.#put(sessionId, { owner, epoch }, ttlMs);
    const entry = this.#entries.get(sessionId) as Entry;
    entry.endsAt = this.#now() + ttlMs;
    if (entry.written >= number) return 'written';
    entry.written = number;
    for (const [name, value] of set) entry.fields.set(name, value);
    for (const name of remove) entry.fields.delete(name);
    return 'written';
  }

  read(sessionId: string, names: readonly string[]): SessionReading | undefined {
    const entry = this.#entryOf(sessionId);
    if (entry === undefined) return undefined;
    const found = names.map((name) => [name, entry.fields.get(name)] as const);
    const fields = new Map(found.filter((one): one is [string, Uint8Array] => one[1] !== undefined));
    return { owner: entry.owner, epoch: entry.epoch, fields };
  }

  claim(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): SessionReading | undefined {
    const found = this.#entryOf(sessionId);
    if (found === undefined || !isOf(found, from, epoch)) return undefined;
    const record = this.#put(sessionId, { owner: to, epoch: epoch + 1 }, ttlMs);
    return { ...record, fields: new Map(found.fields) };
  }

  release(sessionId: string, owner: string, epoch: number): void {
    const found = this.#entryOf(sessionId);
    if (found !== undefined && isOf(found, owner, epoch)) this.#entries.delete(sessionId);
  }

  #entryOf(sessionId: string): Entry | undefined {
    const entry = this.#entries.get(sessionId);
    if (entry === undefined || entry.endsAt > this.#now()) return entry;
    this.#entries.delete(sessionId);
    return undefined;
  }

  #put(sessionId: string, record: SessionRecord, ttlMs: number): SessionRecord {
    const fields = this.#entries.get(sessionId)?.fields ?? new Map<string, Uint8Array>();
    this.#entries.set(sessionId, { ...record, endsAt: this.#now() + ttlMs, written: 0, fields });
    return record;
  }
}

const isOf = (record: SessionRecord, owner: string, epoch: number): boolean =>
  record.owner === owner && record.epoch === epoch;
