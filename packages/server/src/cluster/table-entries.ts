import { isProtocolError, type Logger } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { EngineConnection, EngineTable, TableEntry } from '../engine/engine.js';
import { pause, persist } from '../repeat.js';

/** Until the engine is asked again after a failure, in milliseconds. */
const RETRY_MS = 500;

/** Writes that wait for the engine at once. */
const MAX_WRITES = 32;

/** The entries of one table in the engine, as one node writes and follows them. */
export class TableEntries {
  readonly table: EngineTable;
  /** Of the table, and of what its entries are. */
  readonly #name: string;
  readonly #link: Pick<EngineConnection, 'close'>;
  readonly #logger: Logger;
  /** The last write of each key, after which the next one begins. */
  readonly #writes = new Map<string, Promise<void>>();
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  #isStopped = false;
  #isStalled = false;

  constructor(name: string, link: Pick<EngineConnection, 'table' | 'close'>, logger: Logger) {
    this.table = link.table(name);
    this.#name = name;
    this.#link = link;
    this.#logger = logger;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** The engine does not answer. */
  get isStalled(): boolean {
    return this.#isStalled;
  }

  /** Waits for the writes that have begun, which are not made again if they fail. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#writes.values());
    await this.#link.close();
  }

  /** Calls `next` until this is stopped. Resolves once it was called for the first time. Never rejects. */
  async follow(next: () => Promise<void>): Promise<void> {
    const again = async () => {
      for (let isAnswered = true; !this.#isStopped; isAnswered = await this.#ask(next))
        if (!isAnswered) await pause(RETRY_MS);
    };
    await this.#ask(next);
    void again();
  }

  /** Returns whether the engine has answered. Never rejects. */
  async #ask(next: () => Promise<void>): Promise<boolean> {
    try {
      await next();
      if (this.#isStalled)
        this.#logger.info({ event: `${this.#name}.back` }, `${this.#name} of other nodes are known again`);
      this.#isStalled = false;
      return true;
    } catch (error) {
      this.#handleFailed(error);
      return false;
    }
  }

  #handleFailed(error: unknown): void {
    if (this.#isStalled || this.#isStopped) return;
    this.#isStalled = true;
    const fields = { event: `${this.#name}.stalled`, err: loggable(error) };
    if (isProtocolError(error))
      this.#logger.warn(fields, `${this.#name} of other nodes are as they were known last`);
    else this.#logger.error(fields, `following the ${this.#name} of other nodes has failed`);
  }

  /** Runs after earlier writes of the same key, and again while the engine does not answer. */
  write(key: string, write: () => Promise<void>): void {
    const before = this.#writes.get(key) ?? Promise.resolve();
    const mayGoOn = (error: unknown) => {
      this.#handleFailed(error);
      return !this.#isStopped;
    };
    const after = before.then(() => this.#inTurn(() => persist(write, RETRY_MS, mayGoOn))).catch(() => {});
    this.#writes.set(key, after);
    void after.then(() => {
      if (this.#writes.get(key) === after) this.#writes.delete(key);
    });
  }

  /** Many keys may change at once, and the engine takes so many writes at a time. */
  async #inTurn(write: () => Promise<void>): Promise<void> {
    if (this.#running >= MAX_WRITES) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      await write();
    } finally {
      // Its place goes to the one that has waited for longest.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }

  isWriting(key: string): boolean {
    return this.#writes.has(key);
  }

  /** Replaces the entry of `holder`, or any. */
  async put(key: string, entry: TableEntry | undefined, holder: string | undefined): Promise<void> {
    await this.table.put(key, entry, holder);
  }

  // --- the first entry of a key. The number of the change is returned; `undefined` if the engine has another entry.

  /** Replaces any other. */
  async takeOver(key: string, entry: TableEntry): Promise<number | undefined> {
    return (await this.table.put(key, entry, undefined)).position;
  }

  /** @param dead the holder that may be replaced. */
  async add(key: string, entry: TableEntry, dead: string | undefined): Promise<number | undefined> {
    return await this.#tryAll(key, entry, dead === undefined ? [null] : [null, dead]);
  }

  /** It was of another node. */
  async replace(key: string, entry: TableEntry, former: string): Promise<number | undefined> {
    // Its former node was taken for dead, so the entry is gone. Or its write was made, and not answered.
    return await this.#tryAll(key, entry, [former, null, entry.holder]);
  }

  async #tryAll(
    key: string,
    entry: TableEntry,
    holders: readonly (string | null)[],
  ): Promise<number | undefined> {
    for (const holder of holders) {
      const put = await this.table.put(key, entry, holder);
      if (put.isDone) return put.position;
    }
    return undefined;
  }
}
