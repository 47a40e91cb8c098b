import { isProtocolError, ProtocolError } from '@parlance/protocol';
import {
  type AgentEntry,
  type AgentEntryChange,
  type AgentPut,
  type AgentTable,
  type BackplaneLink,
  ENGINE_TIMEOUT_MS,
  entryOf,
  type ListedNode,
  type NodeList,
  type SessionMove,
  type SessionReading,
  type SessionRecord,
  type SessionWrite,
  type SessionWritten,
} from '../backplane.js';
import { RedisChanges } from './changes.js';
import type { RedisCommands } from './client.js';
import {
  AGENTS,
  CHANGES,
  CLAIM_SESSION,
  FIND,
  FIND_SESSION,
  KEEP_SESSION,
  MOVE_SESSION,
  PLACE_OF_REPLY,
  PLACE_REPLY,
  PUT_AGENT,
  READ_SESSION,
  RELEASE_SESSION,
  RENEW,
  type Script,
  SHARE_KEY,
  WITHDRAW,
  WRITE_SESSION,
} from './scripts.js';

/** Commands that may be unanswered, also beyond their time; with more, none is sent. Renewals have a share of their own. */
const MAX_SEARCHES = 64;
const MAX_OTHERS = 8;

interface Lane {
  readonly max: number;
  unanswered: number;
}
const MAX_PUTS = 64;
const MAX_PLACES = 256;
const MAX_MOVES = 128;
/** A session writes one turn at a time. */
const MAX_TURNS = 16_384;
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
  #announced: { readonly incarnation: string; readonly until: number } | undefined;
  readonly #searches: Lane = { max: MAX_SEARCHES, unanswered: 0 };
  readonly #others: Lane = { max: MAX_OTHERS, unanswered: 0 };
  readonly #puts: Lane = { max: MAX_PUTS, unanswered: 0 };
  readonly #places: Lane = { max: MAX_PLACES, unanswered: 0 };
  readonly #moves: Lane = { max: MAX_MOVES, unanswered: 0 };
  readonly #turns: Lane = { max: MAX_TURNS, unanswered: 0 };
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
    const present = this.#present;
    const [now, isNew, ...fields] = listOf(
      await this.#run(this.#others, RENEW, this.#keys, incarnation, record, String(leaseMs)),
    );
    const hasForgotten = present === incarnation && isNew === '1';
    this.#announced = { incarnation, until: performance.now() + leaseMs };
    const nodes: ListedNode[] = [];
    for (let i = 0; i + 2 < fields.length; i += 3) {
      const [name = '', leftMs = '', described = ''] = fields.slice(i, i + 3);
      nodes.push({ incarnation: name, leaseMs: Number(leftMs), record: described });
    }
    return { nodes, now: Number(now), hasForgotten };
  }

  async find(incarnation: string): Promise<ListedNode | undefined> {
    const found = await this.#run(this.#searches, FIND, this.#keys, incarnation, this.#present);
    const [leftMs, record] = listOf(found);
    if (leftMs === 'forgotten')
      throw new ProtocolError('connection_failed', 'Redis has forgotten the nodes of the cluster');
    if (leftMs === undefined || record === undefined) return undefined;
    return { incarnation, leaseMs: Number(leftMs), record };
  }

  async withdraw(incarnation: string): Promise<void> {
    this.#announced = undefined;
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

  async changes(after: number): Promise<readonly AgentEntryChange[] | undefined> {
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

  async #poll(after: number): Promise<readonly AgentEntryChange[] | undefined> {
    const fields = listOf(await this.#run(this.#others, CHANGES, this.#agentKeys, String(after)));
    if (fields[0] === 'gap') return undefined;
    const changes: AgentEntryChange[] = [];
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

  /** The node that was announced over this connection and whose lease is not over, so that Redis has to know it. */
  get #present(): string {
    const { incarnation = '', until = 0 } = this.#announced ?? {};
    return performance.now() < until ? incarnation : '';
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

  async writeSession(sessionId: string, write: SessionWrite): Promise<SessionWritten> {
    const { owner, epoch, number, isFirst, set, remove, ttlMs } = write;
    const head = [owner, epoch, number, ttlMs, isFirst ? 1 : 0, 2 * set.size].map(String);
    const args = [...head, ...[...set].flat(), ...remove];
    const answer = await this.#run(this.#turns, WRITE_SESSION, this.#keysOf(sessionId), ...args);
    if (answer === 'written' || answer === 'fenced' || answer === 'gone') return answer;
    throw new ProtocolError('connection_failed', 'Redis: a turn was answered with something else');
  }

  async readSession(sessionId: string, names: readonly string[]): Promise<SessionReading | undefined> {
    const answer = await this.#run(this.#searches, READ_SESSION, this.#keysOf(sessionId), ...names);
    const record = recordOf(answer);
    const values = Array.isArray(answer) ? (answer as unknown[]).slice(2) : [];
    return record && { ...record, fields: fieldsOf(names.flatMap((name, i) => [name, values[i]])) };
  }

  async claimSession(sessionId: string, move: SessionMove): Promise<SessionReading | undefined> {
    const args = [move.from, String(move.epoch), move.to, String(move.ttlMs)];
    const answer = await this.#run(this.#moves, CLAIM_SESSION, this.#keysOf(sessionId), ...args);
    if (!Array.isArray(answer) || answer.length === 0) return undefined;
    const fields = fieldsOf(answer as unknown[]);
    for (const name of ['n', 'e']) fields.delete(name);
    return { owner: move.to, epoch: move.epoch + 1, fields };
  }

  async releaseSession(sessionId: string, owner: string, epoch: number): Promise<void> {
    await this.#run(this.#moves, RELEASE_SESSION, this.#keysOf(sessionId), owner, String(epoch));
  }

  #keysOf(sessionId: string): readonly [string] {
    return [`${this.#prefix}:{${sessionId}}`];
  }

  async placeReply(id: string, incarnation: string, ttlMs: number): Promise<void> {
    const expiry = String(Math.max(1, Math.ceil(ttlMs)));
    await this.#run(this.#places, PLACE_REPLY, [this.#replyKey(id)], incarnation, expiry);
  }

  async placeOfReply(id: string): Promise<string | undefined> {
    const [place] = listOf(await this.#run(this.#searches, PLACE_OF_REPLY, [this.#replyKey(id)]));
    return place;
  }

  #replyKey(id: string): string {
    return `${this.#prefix}:{r:${id}}`;
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
      await this.#send(lane, 'EVAL', FIND.source, '1', this.#keys[0], '', '');
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

/** Names and values, one after the other; a value may be missing. */
function fieldsOf(list: readonly unknown[]): Map<string, string> {
  const fields = new Map<string, string>();
  for (let i = 0; i + 1 < list.length; i += 2) {
    const value = list[i + 1];
    if (typeof value === 'string') fields.set(String(list[i]), value);
  }
  return fields;
}

function listOf(reply: unknown): string[] {
  if (Array.isArray(reply)) return reply.map(String);
  throw new ProtocolError('connection_failed', 'Redis answered a script with something that is not a list');
}
