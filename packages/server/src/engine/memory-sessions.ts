import type {
  NeedsCapacity,
  SessionMove,
  SessionReading,
  SessionRecord,
  SessionWrite,
  SessionWritten,
} from './engine.js';
import { Expiring } from './expiring.js';
import { isOf, RELEASED_MS, refusalOf } from './session-rules.js';
import type { SessionItem } from './store.js';

interface Entry extends SessionRecord {
  /** Milliseconds of the clock. */
  endsAt: number;
  /** The number of the last write; 0 before the first of a node. */
  written: number;
  /** Of recorded sessions. */
  readonly fields: Map<string, Uint8Array>;
  /** Of the fields. */
  bytes: number;
}

/** The nodes of sessions that have moved within one process, and the records of others. */
export class MemorySessions {
  readonly #entries: Expiring<Entry>;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
    this.#entries = new Expiring(now);
  }

  move(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): SessionRecord {
    const found = this.find(sessionId);
    if (found !== undefined && (found.owner !== from || found.epoch !== epoch)) return found;
    const record = { owner: to, epoch: epoch + 1 };
    this.#put(sessionId, record, ttlMs);
    return record;
  }

  find(sessionId: string): SessionRecord | undefined {
    const entry = this.#entries.get(sessionId);
    return entry && entry.owner !== '' ? { owner: entry.owner, epoch: entry.epoch } : undefined;
  }

  keep(owner: string, epochs: ReadonlyMap<string, number>, ttlMs: number): readonly string[] {
    return [...epochs].flatMap(([sessionId, epoch]) => {
      const found = this.#entries.get(sessionId);
      if (found !== undefined && !isOf(found, owner, epoch)) return [sessionId];
      if (found === undefined) this.#put(sessionId, { owner, epoch }, ttlMs);
      else found.endsAt = this.#now() + ttlMs;
      return [];
    });
  }

  write(sessionId: string, write: SessionWrite): SessionWritten | NeedsCapacity {
    const { owner, epoch, number, set, remove, ttlMs, maxBytes = Infinity } = write;
    const refusal = refusalOf(this.#entries.get(sessionId), write);
    if (refusal !== undefined) return refusal;
    const found = this.#replaced(sessionId, write);
    if ((found?.written ?? 0) < number) {
      const before = found?.bytes ?? 0;
      const needed = before + growthOf(found?.fields, write);
      if (needed > before && needed > maxBytes) return { needed };
    }
    const entry = found ?? this.#put(sessionId, { owner, epoch }, ttlMs);
    entry.endsAt = this.#now() + ttlMs;
    if (entry.written >= number) return 'written';
    entry.written = number;
    entry.bytes += growthOf(entry.fields, write);
    for (const [name, value] of set) entry.fields.set(name, value);
    for (const name of remove) entry.fields.delete(name);
    return 'written';
  }

  /** The entry that a write adds to; `undefined` if the write replaces it. */
  #replaced(sessionId: string, { owner, epoch, number, replaces }: SessionWrite): Entry | undefined {
    const found = this.#entries.get(sessionId);
    if (found === undefined || replaces !== true) return found;
    if (isOf(found, owner, epoch) && found.written >= number) return found;
    this.#entries.delete(sessionId);
    return undefined;
  }

  read(sessionId: string, names: readonly string[]): SessionReading | undefined {
    const entry = this.#entries.get(sessionId);
    if (entry === undefined || entry.owner === '') return undefined;
    const found = names.map((name) => [name, entry.fields.get(name)] as const);
    const fields = new Map(found.filter((one): one is [string, Uint8Array] => one[1] !== undefined));
    return { owner: entry.owner, epoch: entry.epoch, fields };
  }

  claim(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): SessionReading | undefined {
    const found = this.#entries.get(sessionId);
    if (found === undefined) return undefined;
    const isRepeated = isOf(found, to, epoch + 1) && found.written === 0;
    if (!isRepeated && !isOf(found, from, epoch)) return undefined;
    const record = { owner: to, epoch: epoch + 1 };
    this.#put(sessionId, record, ttlMs);
    return { ...record, fields: new Map(found.fields) };
  }

  release(sessionId: string, owner: string, epoch: number): void {
    const found = this.#entries.get(sessionId);
    if (found === undefined || !isOf(found, owner, epoch)) return;
    this.#entries.delete(sessionId);
    // A node that stood still must not take it for lost.
    if (epoch > 0 && found.bytes > 0) this.#put(sessionId, { owner: '', epoch }, RELEASED_MS);
  }

  /** The recorded sessions. */
  *exports(): Generator<SessionItem> {
    for (const [id, { owner, epoch, written: number, fields, endsAt }] of this.#entries)
      if (owner !== '' && fields.size > 0)
        yield { kind: 'session', id, owner, epoch, number, fields, ttlMs: endsAt - this.#now() };
  }

  #put(sessionId: string, record: SessionRecord, ttlMs: number): Entry {
    const { fields = new Map<string, Uint8Array>(), bytes = 0 } = this.#entries.get(sessionId) ?? {};
    const entry = { ...record, endsAt: this.#now() + ttlMs, written: 0, fields, bytes };
    this.#entries.set(sessionId, entry);
    return entry;
  }
}

/** Bytes of names and values that a write adds. */
function growthOf(fields: Entry['fields'] | undefined, { set, remove }: SessionWrite): number {
  let growth = 0;
  const sizeOf = (name: string, value: Uint8Array | undefined) =>
    value === undefined ? 0 : Buffer.byteLength(name) + value.length;
  for (const [name, value] of set) growth += sizeOf(name, value) - sizeOf(name, fields?.get(name));
  for (const name of remove) growth -= sizeOf(name, fields?.get(name));
  return growth;
}
