import { isProtocolError, ProtocolError } from '@parlance/protocol';
import {
  type AgentChange,
  type AgentEntry,
  type AgentPut,
  type AgentTable,
  type BackplaneLink,
  ENGINE_TIMEOUT_MS,
  entryOf,
  type ListedNode,
  type NodeList,
  type SessionMove,
  type SessionRecord,
} from './backplane.js';
import { RedisChanges } from './redis-changes.js';
import type { RedisCommands } from './redis-client.js';
import {
  AGENTS,
  CHANGES,
  FIND,
  FIND_SESSION,
  KEEP_SESSION,
  MOVE_SESSION,
  PUT_AGENT,
  RENEW,
  type Script,
  SHARE_KEY,
  WITHDRAW,
} from './scripts.js';

/** Commands that may be unanswered, also beyond their time; with more, none is sent. Renewals have a share of their own. */
const MAX_SEARCHES = 64;
const MAX_OTHERS = 8;

interface Lane {
  readonly max: number;
  unanswered: number;
}
const MAX_PUTS = 64;
const MAX_MOVES = 128;
/** Records that are kept with one write. */
const KEEP_BATCH = 64;
/** How often Redis is asked for changes of agents over a client that opens no second connection, in milliseconds. */
const POLL_MS = 100;
const OLDEST = [6, 2] as const;

/** One node's connection to Redis. The engine is checked before the first command. */
export class RedisLink implements BackplaneLink {
  readonly #keys: readonly [string];
  readonly #agentKeys: readonly [string, string];
  readonly #sharedKey: readonly [string];
  readonly #open: () => Promise<RedisCommands>;
  #commands: Promise<RedisCommands> | undefined;
  #isChecked = false;
  readonly #searches: Lane = { max: MAX_SEARCHES, unanswered: 0 };
  readonly #others: Lane = { max: MAX_OTHERS, unanswered: 0 };
  readonly #puts: Lane = { max: MAX_PUTS, unanswered: 0 };
  readonly #moves: Lane = { max: MAX_MOVES, unanswered: 0 };
  readonly #prefix: string;
  #changes: RedisChanges | undefined;

  /** @param prefix of every key. */
  constructor(prefix: string, open: () => Promise<RedisCommands>) {
    this.#prefix = prefix;
    this.#keys = [`${prefix}:nodes`];
    this.#agentKeys = [`${prefix}:{agents}`, `${prefix}:{agents}:log`];
    this.#sharedKey = [`${prefix}:{agents}:key`];
    this.#open = open;
  }

  async renew(incarnation: string, record: string, leaseMs: number): Promise<NodeList> {
    const [now, ...fields] = listOf(
      await this.#run(this.#others, RENEW, this.#keys, incarnation, record, String(leaseMs)),
    );
    const nodes: ListedNode[] = [];
    for (let i = 0; i + 2 < fields.length; i += 3) {
      const [name = '', leftMs = '', described = ''] = fields.slice(i, i + 3);
      nodes.push({ incarnation: name, leaseMs: Number(leftMs), record: described });
    }
    return { nodes, now: Number(now) };
  }

  async find(incarnation: string): Promise<ListedNode | undefined> {
    const [leftMs, record] = listOf(await this.#run(this.#searches, FIND, this.#keys, incarnation));
    if (leftMs === undefined || record === undefined) return undefined;
    return { incarnation, leaseMs: Number(leftMs), record };
  }

  async withdraw(incarnation: string): Promise<void> {
    await this.#run(this.#others, WITHDRAW, this.#keys, incarnation);
  }

  async putAgent(
    key: string,
    entry: AgentEntry | undefined,
    expected: string | null | undefined,
  ): Promise<AgentPut> {
    const text = entry === undefined ? '' : `${entry.holder} ${entry.record}`;
    const holder = expected === undefined ? '*' : (expected ?? '');
    const answer = await this.#run(this.#puts, PUT_AGENT, this.#agentKeys, key, text, holder);
    const [isDone, position] = listOf(answer);
    return { isDone: isDone === '1', position: Number(position) };
  }

  async agents(): Promise<AgentTable> {
    const fields = listOf(await this.#run(this.#others, AGENTS, this.#agentKeys));
    const agents = new Map<string, AgentEntry>();
    let position = 0;
    for (let i = 0; i + 1 < fields.length; i += 2) {
      const [key = '', text = ''] = fields.slice(i, i + 2);
      const entry = entryOf(text);
      if (key === '') position = Number(text);
      else if (entry !== undefined) agents.set(key, entry);
    }
    return { agents, position };
  }

  async changes(after: number): Promise<readonly AgentChange[] | undefined> {
    if (!this.#isChecked) await this.#check(this.#others);
    const { duplicate } = await this.#connected();
    if (duplicate === undefined) await pause(POLL_MS);
    else {
      this.#changes ??= new RedisChanges(this.#agentKeys[1], duplicate);
      try {
        const changes = await this.#changes.read(after);
        if (changes !== 'none') return changes;
      } catch (error) {
        throw failed(error);
      }
    }
    // A stream that was emptied has no changes either.
    return await this.#poll(after);
  }

  async #poll(after: number): Promise<readonly AgentChange[] | undefined> {
    const fields = listOf(await this.#run(this.#others, CHANGES, this.#agentKeys, String(after)));
    if (fields[0] === 'gap') return undefined;
    const changes: AgentChange[] = [];
    for (let i = 0; i + 2 < fields.length; i += 3) {
      const [position, key = '', text = ''] = fields.slice(i, i + 3);
      changes.push({ position: Number(position), key, entry: entryOf(text) });
    }
    return changes;
  }

  async shareKey(candidate: string): Promise<string> {
    const [key = ''] = listOf(await this.#run(this.#others, SHARE_KEY, this.#sharedKey, candidate));
    return key;
  }

  async moveSession(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): Promise<SessionRecord> {
    const args = [from, String(epoch), to, String(ttlMs)];
    const record = recordOf(await this.#run(this.#moves, MOVE_SESSION, this.#keysOf(sessionId), ...args));
    if (record !== undefined) return record;
    throw new ProtocolError('connection_failed', 'Redis: the record of a session is not one of a session');
  }

  async findSession(sessionId: string): Promise<SessionRecord | undefined> {
    return recordOf(await this.#run(this.#searches, FIND_SESSION, this.#keysOf(sessionId)));
  }

  async keepSessions(
    owner: string,
    epochs: ReadonlyMap<string, number>,
    ttlMs: number,
  ): Promise<readonly string[]> {
    const lost: string[] = [];
    const all = [...epochs];
    for (let i = 0; i < all.length; i += KEEP_BATCH) {
      // The client writes the commands of one turn together.
      const keep = all.slice(i, i + KEEP_BATCH).map(async ([sessionId, epoch]) => {
        const args = [owner, String(epoch), String(ttlMs)];
        const answer = await this.#run(this.#moves, KEEP_SESSION, this.#keysOf(sessionId), ...args);
        if (Number(answer) === 0) lost.push(sessionId);
      });
      await Promise.all(keep);
    }
    return lost;
  }

  #keysOf(sessionId: string): readonly [string] {
    return [`${this.#prefix}:{${sessionId}}`];
  }

  async close(): Promise<void> {
    this.#changes?.close();
    // A connection that is being opened is not waited for.
    this.#commands?.then(
      (commands) => commands.close(),
      () => {},
    );
  }

  async #run(
    lane: Lane,
    { source, digest }: Script,
    keys: readonly string[],
    ...args: string[]
  ): Promise<unknown> {
    if (!this.#isChecked) await this.#check(lane);
    const rest = [String(keys.length), ...keys, ...args];
    try {
      return await this.#send(lane, 'EVALSHA', digest, ...rest);
    } catch (error) {
      if (!isReply(error, 'NOSCRIPT')) throw failed(error);
    }
    try {
      return await this.#send(lane, 'EVAL', source, ...rest);
    } catch (error) {
      throw failed(error);
    }
  }

  /** @throws {ProtocolError} `unsupported` if the engine is too old, evicts keys or runs no scripts. */
  async #check(lane: Lane): Promise<void> {
    let info: string;
    try {
      info = String(await this.#send(lane, 'INFO'));
    } catch (error) {
      throw failed(error);
    }
    const version = /^redis_version:(\d+)\.(\d+)\S*/m.exec(info);
    const [stated = 'unknown', major, minor] = version ?? [];
    const isOld = Number(major) < OLDEST[0] || (Number(major) === OLDEST[0] && Number(minor) < OLDEST[1]);
    if (version === null || isOld)
      throw unsuitable(`a cluster needs Redis ${OLDEST.join('.')} or newer, or Valkey; this is ${stated}`);
    const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
    if (policy !== 'noeviction') {
      const found = policy === undefined ? 'this engine states none' : `it is ${policy}`;
      throw unsuitable(`Redis must not evict keys: set maxmemory-policy to noeviction (${found})`);
    }
    try {
      await this.#send(lane, 'EVAL', FIND.source, '1', this.#keys[0], '');
    } catch (error) {
      if (!isReply(error, 'ERR') && !isReply(error, 'NOPERM')) throw failed(error);
      throw unsuitable('this engine, or a proxy in front of it, runs no scripts (EVAL)', error);
    }
    this.#isChecked = true;
  }

  /** One command, which fails if it is not answered in time. */
  async #send(lane: Lane, ...command: string[]): Promise<unknown> {
    if (lane.unanswered >= lane.max)
      throw new ProtocolError('timeout', 'Redis has not answered earlier commands');
    lane.unanswered++;
    const opened = this.#connected();
    const answer = opened
      .then((commands) => commands.send(...command))
      .finally(() => {
        lane.unanswered--;
      });
    // It rejects before it is waited for if the client cannot be opened.
    answer.catch(() => {});
    await opened;
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

  #connected(): Promise<RedisCommands> {
    if (this.#commands === undefined) {
      this.#commands = this.#open();
      // The next command tries again.
      this.#commands.catch(() => {
        this.#commands = undefined;
      });
    }
    return this.#commands;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}

/** Whether Redis itself has answered with an error, which begins with its code. */
function isReply(error: unknown, code: string): boolean {
  return error instanceof Error && !isProtocolError(error) && error.message.startsWith(`${code} `);
}

function failed(cause: unknown): Error {
  if (isProtocolError(cause)) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ProtocolError('connection_failed', `Redis: ${why.slice(0, 200)}`, { cause });
}

function unsuitable(message: string, cause?: unknown): ProtocolError {
  return new ProtocolError('unsupported', message, { cause });
}

/** `undefined` if there is none, or something that no node has written. */
function recordOf(reply: unknown): SessionRecord | undefined {
  const [owner, epoch] = Array.isArray(reply) ? (reply as unknown[]) : [];
  const number = Number(epoch);
  if (typeof owner !== 'string' || !Number.isSafeInteger(number) || number < 0) return undefined;
  return { owner, epoch: number };
}

function listOf(reply: unknown): string[] {
  if (Array.isArray(reply)) return reply.map(String);
  throw new ProtocolError('connection_failed', 'Redis answered a script with something that is not a list');
}
