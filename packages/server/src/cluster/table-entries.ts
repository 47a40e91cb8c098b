import { isProtocolError, type Logger } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import { pause, persist } from '../base/repeat.js';
import type { EngineConnection, EngineTable, TableEntry } from '../engine/engine.js';

/** Until the engine is asked again after a failure, in milliseconds. */
const RETRY_MS = 500;

/** Writes that wait for the engine at once. */
const MAX_WRITES = 32;

/**
 * In a large cluster, a node that has received changes waits so long for each node before it asks again, in
 * milliseconds. So all of them ask for changes of one table 10,000 times a second at most. A node does not wait for
 * less than {@link LEAST_PAUSE_MS}.
 */
const PAUSE_PER_NODE_MS = 0.1;
const LEAST_PAUSE_MS = 5;

export interface TableEntriesOptions {
  /** Of the table, and of what its entries are. */
  readonly name: string;
  readonly link: Pick<EngineConnection, 'table' | 'close'>;
  readonly logger: Logger;
  /** All other nodes that are known. */
  readonly others: () => Iterable<string>;
  /** Passes time. @default of the process */
  readonly pause?: ((ms: number) => Promise<void>) | undefined;
}

/** The entries of one table in the engine, as one node writes and follows them. */
export class TableEntries {
  readonly table: EngineTable;
  readonly #options: TableEntriesOptions;
  /** The last write of each key, after which the next one begins. */
  readonly #writes = new Map<string, Promise<void>>();
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  #isStopped = false;
  #isStalled = false;

  constructor(options: TableEntriesOptions) {
    this.table = options.link.table(options.name);
    this.#options = options;
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
    await this.#options.link.close();
  }

  /** Calls `next` until this is stopped. Resolves once it was called for the first time. Never rejects. */
  async follow(next: () => Promise<void>): Promise<void> {
    const wait = this.#options.pause ?? pause;
    const again = async () => {
      for (let isAnswered = true; !this.#isStopped; isAnswered = await this.#ask(next)) {
        const ms = isAnswered ? this.#restMs : RETRY_MS;
        if (ms >= LEAST_PAUSE_MS) await wait(ms);
      }
    };
    await this.#ask(next);
    void again();
  }

  /** Changes that come meanwhile are read together. */
  get #restMs(): number {
    let nodes = 1;
    for (const _ of this.#options.others()) nodes++;
    return nodes * PAUSE_PER_NODE_MS;
  }

  /** Returns whether the engine has answered. Never rejects. */
  async #ask(next: () => Promise<void>): Promise<boolean> {
    const { name, logger } = this.#options;
    try {
      await next();
      if (this.#isStalled) logger.info({ event: `${name}.back` }, `${name} of other nodes are known again`);
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
    const { name, logger } = this.#options;
    const fields = { event: `${name}.stalled`, err: loggable(error) };
    if (isProtocolError(error)) logger.warn(fields, `${name} of other nodes are as they were known last`);
    else logger.error(fields, `following the ${name} of other nodes has failed`);
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
