import { isProtocolError, type Logger } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { EngineConnection, EngineTable, TableEntry } from '../engine/engine.js';
import { pause, persist } from '../repeat.js';

/** Until the engine is asked again after a failure, in milliseconds. */
const RETRY_MS = 500;

/** The entries of agents in the engine, as one node writes and follows them. */
export class RosterEntries {
  readonly table: EngineTable;
  readonly #link: Pick<EngineConnection, 'close'>;
  readonly #logger: Logger;
  /** The last write of each agent, after which the next one begins. */
  readonly #writes = new Map<string, Promise<void>>();
  #isStopped = false;
  #isStalled = false;

  constructor(link: Pick<EngineConnection, 'table' | 'close'>, logger: Logger) {
    this.table = link.table('agents');
    this.#link = link;
    this.#logger = logger;
  }

  get isStopped(): boolean {
    return this.#isStopped;
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
        this.#logger.info({ event: 'agents.back' }, 'agents of other nodes are known again');
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
    const fields = { event: 'agents.stalled', err: loggable(error) };
    if (isProtocolError(error))
      this.#logger.warn(fields, 'agents of other nodes are as they were known last');
    else this.#logger.error(fields, 'following the agents of other nodes has failed');
  }

  /** Runs after earlier writes of the same agent, and again while the engine does not answer. */
  write(key: string, write: () => Promise<void>): void {
    const before = this.#writes.get(key) ?? Promise.resolve();
    const mayGoOn = (error: unknown) => {
      this.#handleFailed(error);
      return !this.#isStopped;
    };
    const after = before.then(() => persist(write, RETRY_MS, mayGoOn)).catch(() => {});
    this.#writes.set(key, after);
    void after.then(() => {
      if (this.#writes.get(key) === after) this.#writes.delete(key);
    });
  }

  isWriting(key: string): boolean {
    return this.#writes.has(key);
  }

  /** Replaces the entry of `holder`. */
  async put(key: string, entry: TableEntry | undefined, holder: string): Promise<void> {
    await this.table.put(key, entry, holder);
  }

  // --- the first entry of an agent. The number of the change is returned; `undefined` if the engine has another entry.

  /** Replaces any other. */
  async takeOver(key: string, entry: TableEntry): Promise<number | undefined> {
    return (await this.table.put(key, entry, undefined)).position;
  }

  /** @param dead the holder that may be replaced. */
  async add(key: string, entry: TableEntry, dead: string | undefined): Promise<number | undefined> {
    return await this.#tryAll(key, entry, dead === undefined ? [null] : [null, dead]);
  }

  /** The session of the agent was at another node. */
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
