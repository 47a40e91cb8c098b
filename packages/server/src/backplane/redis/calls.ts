import { isProtocolError, ProtocolError } from '@parlance/protocol';
import { ENGINE_TIMEOUT_MS } from '../backplane.js';
import type { RedisCommands } from './client.js';
import { argumentOf, failed } from './lanes.js';
import type { Script } from './scripts.js';

/** Calls that may be unanswered, also beyond their time; with more, none is sent. */
const MAX_CALLS = 4_096;

/** Calls of Redis whose arguments and answers are bytes. Each fails if it is not answered in time. */
export class RedisCalls {
  readonly #open: () => Promise<RedisCommands>;
  #commands: Promise<RedisCommands> | undefined;
  #unanswered = 0;

  constructor(open: () => Promise<RedisCommands>) {
    this.#open = open;
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

  /** The connection, which is opened with the first command. */
  connected(): Promise<RedisCommands> {
    if (this.#commands !== undefined) return this.#commands;
    const opened = this.#open();
    this.#commands = opened;
    // The next command tries again.
    opened.catch(() => {
      this.#commands = undefined;
    });
    return opened;
  }

  close(): void {
    this.#commands?.then(
      (commands) => commands.close(),
      () => {},
    );
  }

  async #send(...command: readonly (string | Uint8Array)[]): Promise<unknown> {
    if (this.#unanswered >= MAX_CALLS)
      throw new ProtocolError('timeout', 'Redis has not answered earlier commands');
    const { sendBytes } = await this.connected();
    if (sendBytes === undefined)
      throw new ProtocolError('unsupported', 'redis({ client }): the client has no method callBuffer');
    this.#unanswered++;
    const answer = sendBytes(...command.map(argumentOf)).finally(() => {
      this.#unanswered--;
    });
    answer.catch(() => {});
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      const message = `Redis did not answer within ${ENGINE_TIMEOUT_MS} ms`;
      timer = setTimeout(() => reject(new ProtocolError('timeout', message)), ENGINE_TIMEOUT_MS);
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && !isProtocolError(error) && error.message.startsWith('NOSCRIPT ');
}
