import { isProtocolError, ProtocolError } from '@parlance/protocol';
import { ENGINE_TIMEOUT_MS } from '../engine.js';
import type { RedisCommands, RedisSource } from './client.js';
import { type Lane, RedisConnection } from './connection.js';
import type { Script } from './lua.js';
import { FIND } from './scripts.js';

type Argument = string | Uint8Array;

/** One call of a script that makes several. All have as many keys. */
export interface OneOfMany {
  readonly keys: readonly string[];
  readonly args: readonly Argument[];
}

/** Sends a command, whose answer has texts or bytes. */
type Send = (wire: RedisCommands, command: readonly Argument[]) => Promise<unknown>;

const OLDEST = [6, 2] as const;

/** Redis has one millisecond more to answer for each so many arguments of a command, because both ends read all of them. */
const ARGUMENTS_PER_MS = 100;

/** Calls of Redis over one connection, each of which fails if it is not answered in time. */
export class RedisCalls {
  readonly #connection: RedisConnection<RedisCommands>;
  readonly #table: string | undefined;
  /** Whether replicas can confirm writes, as one server gets them all. */
  readonly canConfirm: boolean;
  #isChecked: boolean;
  /** Whether one server has all keys, as far as is known. */
  #hasAllKeys: boolean;

  /** @param table a key that all nodes use; with it, the engine is checked before the first call. */
  constructor(source: RedisSource, table?: string) {
    this.#connection = new RedisConnection({ open: () => source.open() });
    this.#table = table;
    this.canConfirm = source.hasServers !== true;
    this.#hasAllKeys = this.canConfirm;
    this.#isChecked = table === undefined;
  }

  /** The connection that commands are sent on; `undefined` while there is none. */
  get wire(): RedisCommands | undefined {
    return this.#connection.wire;
  }

  /** @throws {ProtocolError} `connection_failed`, `timeout`; `unsupported` if the engine is unsuitable. */
  run(lane: Lane, script: Script, keys: readonly string[], ...args: string[]): Promise<unknown> {
    return this.#run(asTexts, lane, script, keys, args);
  }

  /**
   * As {@link run}, with bytes as arguments and in answers.
   *
   * @throws {ProtocolError} as {@link run}; `unsupported` also if the client cannot send bytes.
   */
  runBytes(
    lane: Lane,
    script: Script,
    keys: readonly string[],
    ...args: readonly Argument[]
  ): Promise<unknown> {
    return this.#run(asBytes, lane, script, keys, args);
  }

  /**
   * Several calls of a script `manyTimes` with one command. Without an answer none of them has one; if Redis refuses the command, or
   * several servers have the keys, each call is made by itself.
   */
  async runMany(
    lane: Lane,
    script: Script,
    calls: readonly OneOfMany[],
  ): Promise<readonly PromiseSettledResult<unknown>[]> {
    if (calls.length > 1 && this.#hasAllKeys) {
      try {
        const answers = await this.#runTogether(lane, script, calls);
        return answers.map((value) => ({ status: 'fulfilled', value }));
      } catch (reason) {
        if (isReply(reason, 'CROSSSLOT')) this.#hasAllKeys = false;
        if (!isReply(reason)) return calls.map(() => ({ status: 'rejected', reason }));
      }
    }
    const alone = calls.map(async (each) => (await this.#runTogether(lane, script, [each]))[0]);
    return await Promise.allSettled(alone);
  }

  async #runTogether(lane: Lane, script: Script, calls: readonly OneOfMany[]): Promise<readonly unknown[]> {
    const keys: string[] = [];
    const args: Argument[] = [String(calls[0]?.keys.length)];
    for (const each of calls) {
      keys.push(...each.keys);
      args.push(String(each.args.length));
      for (const arg of each.args) args.push(arg);
    }
    const answers = await this.#run(asBytes, lane, script, keys, args);
    if (Array.isArray(answers) && answers.length === calls.length) return answers;
    throw new ProtocolError('connection_failed', 'Redis answered a script with something else');
  }

  /** @throws {ProtocolError} as {@link runBytes}. */
  async send(lane: Lane, ...command: readonly Argument[]): Promise<unknown> {
    await this.check(lane);
    return await this.#send(asBytes, lane, command);
  }

  /**
   * One command that Redis holds for a while.
   *
   * @throws {ProtocolError} as {@link run}.
   */
  async wait(lane: Lane, heldMs: number, ...command: string[]): Promise<unknown> {
    await this.check(lane);
    return await this.#send(asTexts, lane, command, heldMs + ENGINE_TIMEOUT_MS);
  }

  /** The engine's report about itself. @throws {ProtocolError} `connection_failed`, `timeout`. */
  async info(lane: Lane): Promise<string> {
    return String(await this.#send(asTexts, lane, ['INFO']));
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
      throw unsuitable(`this server needs Redis ${OLDEST.join('.')} or newer, or Valkey; this is ${stated}`);
    const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
    if (policy !== 'noeviction') {
      const found = policy === undefined ? 'this engine states none' : `it is ${policy}`;
      throw unsuitable(`Redis must not evict keys: set maxmemory-policy to noeviction (${found})`);
    }
    try {
      await this.#send(asTexts, lane, ['EVAL', FIND.source, '1', this.#table ?? '', '', '']);
    } catch (error) {
      if (!isReply(error, 'ERR') && !isReply(error, 'NOPERM')) throw error;
      throw unsuitable('this engine, or a proxy in front of it, runs no scripts (EVAL)', error);
    }
    this.#isChecked = true;
  }

  close(): void {
    this.#connection.close();
  }

  /** Calls a script by its digest, and once more with its source if the engine does not have it. */
  async #run(
    send: Send,
    lane: Lane,
    { source, digest }: Script,
    keys: readonly string[],
    args: readonly Argument[],
  ): Promise<unknown> {
    await this.check(lane);
    const rest: Argument[] = [String(keys.length), ...keys];
    for (const arg of args) rest.push(arg);
    try {
      return await this.#send(send, lane, ['EVALSHA', digest, ...rest]);
    } catch (error) {
      if (!isReply(error, 'NOSCRIPT')) throw error;
    }
    return await this.#send(send, lane, ['EVAL', source, ...rest]);
  }

  async #send(
    send: Send,
    lane: Lane,
    command: readonly Argument[],
    withinMs: number = ENGINE_TIMEOUT_MS,
  ): Promise<unknown> {
    try {
      const longer = Math.floor(command.length / ARGUMENTS_PER_MS);
      return await this.#connection.run(lane, (wire) => send(wire, command), withinMs + longer);
    } catch (error) {
      throw failed(error);
    }
  }
}

const asTexts: Send = ({ send }, command) => send(command.map(String));

const asBytes: Send = async ({ sendBytes }, command) => {
  if (sendBytes === undefined)
    throw new ProtocolError('unsupported', 'redis({ client }): the client has no method callBuffer');
  return await sendBytes(command.map(argumentOf));
};

function argumentOf(argument: Argument): string | Buffer {
  if (typeof argument === 'string') return argument;
  return Buffer.from(argument.buffer, argument.byteOffset, argument.byteLength);
}

/** Whether Redis itself has answered with an error, which begins with its code. @param code @default any */
function isReply(error: unknown, code = '[A-Z]+'): boolean {
  const { cause } = error as Error;
  return cause instanceof Error && new RegExp(`^${code} `).test(cause.message);
}

export function failed(cause: unknown): Error {
  if (isProtocolError(cause)) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ProtocolError('connection_failed', `Redis: ${why.slice(0, 200)}`, { cause });
}

function unsuitable(message: string, cause?: unknown): ProtocolError {
  return new ProtocolError('unsupported', message, { cause });
}
