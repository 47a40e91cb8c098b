import type { RedisServer } from '../../../packages/server/src/engine/testing/redis-server.js';

type Redis = RedisServer['client'];

/** Counts the bytes of the fields that nodes write to the hash of one session, as Redis reports them. */
export class Written {
  readonly #monitor: Redis;
  #bytes = 0;

  static async watch(client: Redis, key: string): Promise<Written> {
    return new Written(await client.monitor(), key);
  }

  private constructor(monitor: Redis, key: string) {
    this.#monitor = monitor;
    monitor.on('monitor', (_time: string, [command = '', subject, ...fields]: readonly string[]) => {
      if (command.toUpperCase() !== 'HSET' || subject !== key) return;
      for (const field of fields) this.#bytes += lengthOf(field);
    });
  }

  /** Returns what was written, when what is under way is reported. */
  async end(): Promise<number> {
    await new Promise((resolve) => setTimeout(resolve, 500));
    this.#monitor.disconnect();
    return this.#bytes;
  }
}

/** Redis reports bytes that are not printable as `\x00`, and some others behind a backslash. */
const lengthOf = (reported: string): number => reported.replace(/\\x[\da-f]{2}|\\./gi, '_').length;
