import { isProtocolError, ProtocolError } from '@parlance/protocol';
import { ENGINE_TIMEOUT_MS } from '../backplane.js';
import type { RedisCommands, RedisSource } from './client.js';
import { type Lane, RedisConnection } from './connection.js';
import { FIND, type Script } from './scripts.js';

type Argument = string | Uint8Array;

const OLDEST = [6, 2] as const;

/** The commands of one node, each of which fails if it is not answered in time. The engine is checked before the first. */
export class RedisLanes {
  readonly #table: string;
  readonly #connection: RedisConnection<RedisCommands>;
  #isChecked = false;

  /** @param table a key of the cluster. */
  constructor(table: string, source: RedisSource) {
    this.#table = table;
    this.#connection = new RedisConnection({ open: () => source.open() });
  }

  /** The connection that commands are sent on; `undefined` while there is none. */
  get wire(): RedisCommands | undefined {
    return this.#connection.wire;
  }

  /** @throws {ProtocolError} `connection_failed`, `timeout`; `unsupported` if the engine is unsuitable. */
  async run(
    lane: Lane,
    { source, digest }: Script,
    keys: readonly string[],
    ...args: string[]
  ): Promise<unknown> {
    await this.check(lane);
    const rest = [String(keys.length), ...keys, ...args];
    return await orMissing(
      () => this.#send(lane, ({ send }) => send('EVALSHA', digest, ...rest)),
      () => this.#send(lane, ({ send }) => send('EVAL', source, ...rest)),
    );
  }

  /**
   * As {@link run}, with bytes as arguments and in answers.
   *
   * @throws {ProtocolError} as {@link run}; `unsupported` also if the client cannot send bytes.
   */
  async runBytes(
    lane: Lane,
    { source, digest }: Script,
    keys: readonly string[],
    ...args: readonly Argument[]
  ): Promise<unknown> {
    await this.check(lane);
    const rest = [String(keys.length), ...keys, ...args.map(argumentOf)];
    const send =
      (...command: (string | Buffer)[]) =>
      ({ sendBytes = noBytes }: RedisCommands) =>
        sendBytes(...command);
    return await orMissing(
      () => this.#send(lane, send('EVALSHA', digest, ...rest)),
      () => this.#send(lane, send('EVAL', source, ...rest)),
    );
  }

  /**
   * Only once.
   *
   * @throws {ProtocolError} `unsupported` if the engine is too old, evicts keys or runs no scripts.
   */
  async check(lane: Lane): Promise<void> {
    if (this.#isChecked) return;
    const info = await this.info(lane);
    const version = /^redis_version:((\d+)\.(\d+)\S*)/m.exec(info);
    const [, stated = 'unknown', major, minor] = version ?? [];
    const isOld = Number(major) < OLDEST[0] || (Number(major) === OLDEST[0] && Number(minor) < OLDEST[1]);
    if (version === null || isOld)
      throw unsuitable(`a cluster needs Redis ${OLDEST.join('.')} or newer, or Valkey; this is ${stated}`);
    const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
    if (policy !== 'noeviction') {
      const found = policy === undefined ? 'this engine states none' : `it is ${policy}`;
      throw unsuitable(`Redis must not evict keys: set maxmemory-policy to noeviction (${found})`);
    }
    try {
      await this.#send(lane, ({ send }) => send('EVAL', FIND.source, '1', this.#table, '', ''));
    } catch (error) {
      if (!isReply(error, 'ERR') && !isReply(error, 'NOPERM')) throw failed(error);
      throw unsuitable('this engine, or a proxy in front of it, runs no scripts (EVAL)', error);
    }
    this.#isChecked = true;
  }

  /**
   * One command that Redis holds for a while.
   *
   * @throws {ProtocolError} as {@link run}.
   */
  async wait(lane: Lane, heldMs: number, ...command: string[]): Promise<unknown> {
    await this.check(lane);
    try {
      return await this.#send(lane, ({ send }) => send(...command), heldMs + ENGINE_TIMEOUT_MS);
    } catch (error) {
      throw failed(error);
    }
  }

  /** What the engine says of itself. @throws {ProtocolError} `connection_failed`, `timeout`. */
  async info(lane: Lane): Promise<string> {
    try {
      return String(await this.#send(lane, ({ send }) => send('INFO')));
    } catch (error) {
      throw failed(error);
    }
  }

  close(): void {
    this.#connection.close();
  }

  #send(
    lane: Lane,
    command: (commands: RedisCommands) => Promise<unknown>,
    withinMs?: number,
  ): Promise<unknown> {
    return this.#connection.run(lane, command, withinMs);
  }
}

/** Calls a script by its digest, and once more with its source if the engine does not have it. */
async function orMissing(call: () => Promise<unknown>, load: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (!isReply(error, 'NOSCRIPT')) throw failed(error);
  }
  try {
    return await load();
  } catch (error) {
    throw failed(error);
  }
}

export function argumentOf(argument: Argument): string | Buffer {
  if (typeof argument === 'string') return argument;
  return Buffer.from(argument.buffer, argument.byteOffset, argument.byteLength);
}

async function noBytes(): Promise<never> {
  throw new ProtocolError('unsupported', 'redis({ client }): the client has no method callBuffer');
}

/** Whether Redis itself has answered with an error, which begins with its code. */
function isReply(error: unknown, code: string): boolean {
  return error instanceof Error && !isProtocolError(error) && error.message.startsWith(`${code} `);
}

export function failed(cause: unknown): Error {
  if (isProtocolError(cause)) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ProtocolError('connection_failed', `Redis: ${why.slice(0, 200)}`, { cause });
}

function unsuitable(message: string, cause?: unknown): ProtocolError {
  return new ProtocolError('unsupported', message, { cause });
}
