import { ProtocolError } from '@parlance/protocol';
import { pause } from '../../repeat.js';
import {
  type AgentEntry,
  type AgentEntryChange,
  type AgentPut,
  type AgentTable,
  type BackplaneLink,
  entryOf,
  type ListedNode,
  type NodeList,
} from '../backplane.js';
import { failed, RedisCalls } from './calls.js';
import { RedisChanges } from './changes.js';
import type { RedisSource } from './client.js';
import type { Lane } from './connection.js';
import { AGENTS, CHANGES, FIND, PUT_AGENT, RENEW, SHARE_KEY, WITHDRAW } from './scripts.js';
import { RedisSessions } from './sessions.js';

/** Commands that may be unanswered; with more, none is sent. Renewals have a share of their own. */
const MAX_OTHERS = 8;
const MAX_PUTS = 64;
/** How often Redis is asked for changes of agents over a client that opens no second connection, in milliseconds. */
const POLL_MS = 100;

/** What one node says to Redis. The engine is checked before the first command. */
export class RedisLink extends RedisSessions implements BackplaneLink {
  readonly #keys: readonly [string];
  readonly #agentKeys: readonly [string, string];
  readonly #sharedKey: readonly [string];
  #announced: { readonly incarnation: string; readonly until: number } | undefined;
  readonly #others: Lane = { max: MAX_OTHERS, unanswered: 0 };
  readonly #puts: Lane = { max: MAX_PUTS, unanswered: 0 };
  /** `undefined` if waiting for a change would hold up everything else. */
  readonly #changes: RedisChanges | undefined;

  /** @param prefix of every key. */
  constructor(prefix: string, source: RedisSource) {
    const table = `${prefix}:nodes`;
    super(prefix, new RedisCalls(source, table));
    this.#keys = [table];
    this.#agentKeys = [`${prefix}:{agents}`, `${prefix}:{agents}:log`];
    this.#sharedKey = [`${prefix}:{agents}:key`];
    this.#changes = source.isShared ? undefined : new RedisChanges(this.#agentKeys[1], source);
  }

  async renew(incarnation: string, record: string, leaseMs: number): Promise<NodeList> {
    const present = this.#present;
    const [now, isNew, ...fields] = listOf(
      await this.calls.run(this.#others, RENEW, this.#keys, incarnation, record, String(leaseMs)),
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
    const found = await this.calls.run(this.searches, FIND, this.#keys, incarnation, this.#present);
    const [leftMs, record] = listOf(found);
    if (leftMs === 'forgotten')
      throw new ProtocolError('connection_failed', 'Redis has forgotten the nodes of the cluster');
    if (leftMs === undefined || record === undefined) return undefined;
    return { incarnation, leaseMs: Number(leftMs), record };
  }

  async withdraw(incarnation: string): Promise<void> {
    this.#announced = undefined;
    await this.calls.run(this.#others, WITHDRAW, this.#keys, incarnation);
  }

  async putAgent(
    key: string,
    entry: AgentEntry | undefined,
    expected: string | null | undefined,
  ): Promise<AgentPut> {
    const text = entry === undefined ? '' : `${entry.holder} ${entry.record}`;
    const holder = expected === undefined ? '*' : (expected ?? '');
    const answer = await this.calls.run(this.#puts, PUT_AGENT, this.#agentKeys, key, text, holder);
    const [isDone, position] = listOf(answer);
    return { isDone: isDone === '1', position: Number(position) };
  }

  async agents(): Promise<AgentTable> {
    const fields = listOf(await this.calls.run(this.#others, AGENTS, this.#agentKeys));
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
    await this.calls.check(this.#others);
    if (this.#changes === undefined) await pause(POLL_MS);
    else {
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
    const fields = listOf(await this.calls.run(this.#others, CHANGES, this.#agentKeys, String(after)));
    if (fields[0] === 'gap') return undefined;
    const changes: AgentEntryChange[] = [];
    for (let i = 0; i + 2 < fields.length; i += 3) {
      const [position, key = '', text = ''] = fields.slice(i, i + 3);
      changes.push({ position: Number(position), key, entry: entryOf(text) });
    }
    return changes;
  }

  async shareKey(candidate: string): Promise<string> {
    const [key = ''] = listOf(await this.calls.run(this.#others, SHARE_KEY, this.#sharedKey, candidate));
    return key;
  }

  /** The node that was announced over this connection and whose lease is not over, so that Redis has to know it. */
  get #present(): string {
    const { incarnation = '', until = 0 } = this.#announced ?? {};
    return performance.now() < until ? incarnation : '';
  }

  async close(): Promise<void> {
    this.#changes?.close();
    this.calls.close();
  }
}

function listOf(reply: unknown): string[] {
  if (Array.isArray(reply)) return reply.map(String);
  throw new ProtocolError('connection_failed', 'Redis answered a script with something that is not a list');
}
