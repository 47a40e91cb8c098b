import type { SessionMove, SessionRecord } from './backplane.js';

interface Entry extends SessionRecord {
  /** Milliseconds of the clock. */
  readonly endsAt: number;
}

/** Where sessions are that have moved within one process. */
export class MemorySessions {
  readonly #entries = new Map<string, Entry>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  move(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): SessionRecord {
    const found = this.find(sessionId);
    if (found !== undefined && (found.owner !== from || found.epoch !== epoch)) return found;
    return this.#write(sessionId, { owner: to, epoch: epoch + 1 }, ttlMs);
  }

  find(sessionId: string): SessionRecord | undefined {
    const entry = this.#entries.get(sessionId);
    if (entry === undefined) return undefined;
    const { owner, epoch, endsAt } = entry;
    if (endsAt > this.#now()) return { owner, epoch };
    this.#entries.delete(sessionId);
    return undefined;
  }

  keep(owner: string, epochs: ReadonlyMap<string, number>, ttlMs: number): readonly string[] {
    return [...epochs].flatMap(([sessionId, epoch]) => {
      const found = this.find(sessionId);
      if (found !== undefined && (found.owner !== owner || found.epoch !== epoch)) return [sessionId];
      this.#write(sessionId, { owner, epoch }, ttlMs);
      return [];
    });
  }

  #write(sessionId: string, record: SessionRecord, ttlMs: number): SessionRecord {
    this.#entries.set(sessionId, { ...record, endsAt: this.#now() + ttlMs });
    return record;
  }
}
