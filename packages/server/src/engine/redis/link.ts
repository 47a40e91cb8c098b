import { setImmediate } from 'node:timers';
import { ProtocolError } from '@parlance/protocol';
import type { EngineConnection, ListedNode, NodeList } from '../engine.js';
import { RedisCalls } from './calls.js';
import type { RedisSource } from './client.js';
import type { Lane } from './connection.js';
import { FIND, listOf, RENEW, WITHDRAW } from './scripts.js';
import { RedisSessions } from './sessions.js';
import { RedisTable } from './table.js';

/** Commands that may be unanswered; with more, none is sent. Renewals have a share of their own. */
const MAX_OTHERS = 8;

/** The calls of one node to Redis. It checks the engine before the first command. */
export class RedisLink extends RedisSessions implements EngineConnection {
  readonly #keys: readonly [string];
  readonly #prefix: string;
  readonly #source: RedisSource;
  readonly #tables = new Map<string, RedisTable>();
  #announced: { readonly incarnation: string; readonly until: number } | undefined;
  readonly #others: Lane = { max: MAX_OTHERS, unanswered: 0 };

  /** @param prefix of every key. */
  constructor(prefix: string, source: RedisSource) {
    const table = `${prefix}:nodes`;
    super(prefix, new RedisCalls(source, table));
    this.#keys = [table];
    this.#prefix = prefix;
    this.#source = source;
  }

  async renew(incarnation: string, record: string, leaseMs: number, known = ''): Promise<NodeList> {
    const present = this.#present;
    const [now, isNew, version = '', ...fields] = listOf(
      await this.calls.run(this.#others, RENEW, this.#keys, incarnation, record, String(leaseMs), known),
    );
    const hasForgotten = present === incarnation && isNew === '1';
    this.#announced = { incarnation, until: performance.now() + leaseMs };
    const nodes: ListedNode[] = [];
    for (let i = 0; i + 2 < fields.length; i += 3) {
      const [name = '', leftMs = '', described = ''] = fields.slice(i, i + 3);
      nodes.push({ incarnation: name, leaseMs: Number(leftMs), record: described });
    }
    const isSame = nodes.length === 0 && known !== '' && version === known;
    return { nodes: isSame ? undefined : nodes, version, now: Number(now), hasForgotten };
  }

  async find(incarnation: string): Promise<ListedNode | undefined> {
    const found = await this.calls.run(this.searches, FIND, this.#keys, incarnation, this.#present);
    const [leftMs, record] = listOf(found);
    if (leftMs === 'forgotten') throw new ProtocolError('connection_failed', 'Redis has forgotten the nodes');
    if (leftMs === undefined || record === undefined) return undefined;
    return { incarnation, leaseMs: Number(leftMs), record };
  }

  async withdraw(incarnation: string): Promise<void> {
    this.#announced = undefined;
    await this.calls.run(this.#others, WITHDRAW, this.#keys, incarnation);
  }

  table(name: string): RedisTable {
    const table =
      this.#tables.get(name) ?? new RedisTable(`${this.#prefix}:{${name}}`, this.calls, this.#source);
    this.#tables.set(name, table);
    return table;
  }

  /** The node that was announced over this connection and whose lease is not over, so that Redis has to know it. */
  get #present(): string {
    const { incarnation = '', until = 0 } = this.#announced ?? {};
    return performance.now() < until ? incarnation : '';
  }

  async close(): Promise<void> {
    if (this.sendAll()) await new Promise((resolve) => setImmediate(resolve));
    for (const table of this.#tables.values()) table.close();
    this.calls.close();
  }
}
