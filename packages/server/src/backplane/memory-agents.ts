import {
  type AgentEntry,
  type AgentEntryChange,
  type AgentPut,
  type AgentTable,
  MAX_CHANGES,
  MAX_LOG,
} from './backplane.js';

/** How long a question for changes waits, in milliseconds. */
const PATIENCE_MS = 500;

/** The agents of a cluster within one process. */
export class MemoryAgents {
  readonly #agents = new Map<string, AgentEntry>();
  #log: AgentEntryChange[] = [];
  #position = 0;
  #waiting: (() => void)[] = [];

  put(key: string, entry: AgentEntry | undefined, expected: string | null | undefined): AgentPut {
    const held = this.#agents.get(key);
    const isThere = held?.holder === entry?.holder && held?.record === entry?.record;
    if (isThere) return { isDone: true, position: this.#position };
    const holder = held?.holder ?? null;
    if (expected !== undefined && expected !== holder) return { isDone: false, position: this.#position };
    if (entry === undefined) this.#agents.delete(key);
    else this.#agents.set(key, entry);
    const position = ++this.#position;
    this.#log.push({ position, key, entry });
    if (this.#log.length > 2 * MAX_LOG) this.#log = this.#log.slice(-MAX_LOG);
    for (const wake of this.#waiting.splice(0)) wake();
    return { isDone: true, position };
  }

  table(): AgentTable {
    return { agents: new Map(this.#agents), position: this.#position };
  }

  async changes(after: number): Promise<readonly AgentEntryChange[] | undefined> {
    if (after === this.#position) await this.#news();
    const first = this.#position - this.#log.length;
    if (after < first || after > this.#position) return undefined;
    return this.#log.slice(after - first, after - first + MAX_CHANGES);
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, PATIENCE_MS);
      timer.unref();
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
