import { isProtocolError, ProtocolError } from '@parlance/protocol';
import type { RedisCommands, RedisSource } from './client.js';
import { type Lane, RedisConnection } from './connection.js';
import { argumentOf, failed } from './lanes.js';
import type { Script } from './scripts.js';

/** Calls that may be unanswered; with more, none is sent. */
const MAX_CALLS = 4_096;

/** Calls of Redis whose arguments and answers are bytes. Each fails if it is not answered in time. */
export class RedisCalls {
  readonly #connection: RedisConnection<RedisCommands>;
  readonly #lane: Lane = { max: MAX_CALLS, unanswered: 0 };

  constructor(source: RedisSource) {
    this.#connection = new RedisConnection({ open: () => source.open() });
  }

  /** @throws {ProtocolError} `connection_failed`, `timeout`; `unsupported` if the client cannot send bytes. */
  async run(
    { source, digest }: Script,
    keys: readonly string[],
    ...args: readonly (string | Uint8Array)[]
  ): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args];
    try {
      return await this.#send('EVALSHA', digest, ...rest);
    } catch (error) {
      if (!isMissing(error)) throw failed(error);
    }
    return await this.send('EVAL', source, ...rest);
  }

  /** @throws {ProtocolError} as {@link run}. */
  async send(...command: readonly (string | Uint8Array)[]): Promise<unknown> {
    try {
      return await this.#send(...command);
    } catch (error) {
      throw failed(error);
    }
  }

  close(): void {
    this.#connection.close();
  }

  async #send(...command: readonly (string | Uint8Array)[]): Promise<unknown> {
    return await this.#connection.run(this.#lane, async ({ sendBytes }) => {
      if (sendBytes === undefined)
        throw new ProtocolError('unsupported', 'redis({ client }): the client has no method callBuffer');
      return await sendBytes(...command.map(argumentOf));
    });
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && !isProtocolError(error) && error.message.startsWith('NOSCRIPT ');
}
