import type { Logger } from '@parlance/protocol';
import { keyOf, textsOf } from '../../base/keys.js';
import { Orphans, type OrphansOptions } from '../../cluster/orphans.js';
import { TableEntries } from '../../cluster/table-entries.js';
import type { EngineConnection, TableChange, TableEntry } from '../../engine/engine.js';

/** Groups of other nodes, each counted once for each node that has members. */
export const MAX_ENTRIES = 100_000;
/**
 * A node that is not known yet counts as alive for this long, in milliseconds, and so does what the engine has forgotten or does not
 * know yet.
 */
const GRACE_MS = 6_000;
/** Entries of dead nodes that are removed with one tick. */
const MAX_SWEPT = 500;

export interface InterestOptions extends OrphansOptions {
  readonly link: Pick<EngineConnection, 'table' | 'close'>;
  readonly logger: Logger;
  /** As {@link TableEntriesOptions.pause}. */
  readonly pause?: ((ms: number) => Promise<void>) | undefined;
  /** A node has members of a group, which this one did not know. */
  readonly onNode: (name: string, node: string) => void;
}

/** That a node has members. */
interface Other {
  /** The engine says so. Else the node has, and the engine will. */
  isStated: boolean;
  /** When the engine has said so first, or the node itself has said so last. A clock reading. */
  seenAt: number;
}

/** Which nodes have members of which groups. Each says so in the engine, which tells all others. */
export class Interest {
  readonly #options: InterestOptions;
  readonly #entries: TableEntries;
  readonly #orphans: Orphans;
  readonly #own = new Set<string>();
  /** By group and node. */
  readonly #others = new Map<string, Map<string, Other>>();
  #count = 0;
  #isFull = false;
  #position: number | undefined;
  /** The engine has forgotten the groups, as far as is known. A clock reading. */
  #forgottenUntil: number | undefined;

  constructor(options: InterestOptions) {
    this.#options = options;
    this.#entries = new TableEntries({ ...options, name: 'groups' });
    this.#orphans = new Orphans(options);
  }

  /** The groups of other nodes were read once. */
  get isReady(): boolean {
    return this.#position !== undefined;
  }

  start(): Promise<void> {
    return this.#entries.follow(() => this.#next());
  }

  /** Removes what this node has said. Never rejects. */
  async stop(): Promise<void> {
    for (const name of [...this.#own]) this.remove(name);
    await this.#entries.stop();
  }

  /** Other nodes with members of a group. */
  nodesOf(name: string): Iterable<string> {
    return this.#others.get(name)?.keys() ?? [];
  }

  // --- this node

  add(name: string): void {
    this.#own.add(name);
    this.#write(name);
  }

  remove(name: string): void {
    this.#own.delete(name);
    this.#write(name);
  }

  /** Writes what is so when it is written. */
  #write(name: string): void {
    const { incarnation } = this.#options;
    const key = keyOf(name, incarnation);
    this.#entries.write(key, () => {
      const entry = this.#own.has(name) ? { holder: incarnation, record: name } : undefined;
      return this.#entries.put(key, entry, entry === undefined ? incarnation : undefined);
    });
  }

  // --- other nodes

  /** Another node has said itself that it has members. */
  note(name: string, node: string): void {
    this.#set(name, node, false);
  }

  #set(name: string, node: string, isStated: boolean): void {
    const nodes = this.#others.get(name) ?? new Map<string, Other>();
    const known = nodes.get(node);
    if (known !== undefined) {
      if (isStated) known.isStated = true;
      else known.seenAt = this.#options.now();
      return;
    }
    if (this.#count >= MAX_ENTRIES) return this.#handleFull();
    this.#count++;
    this.#others.set(name, nodes.set(node, { isStated, seenAt: this.#options.now() }));
    this.#options.onNode(name, node);
  }

  #handleFull(): void {
    if (this.#isFull) return;
    this.#isFull = true;
    const fields = { event: 'groups.full', most: MAX_ENTRIES };
    this.#options.logger.error(fields, 'other nodes have more groups than this node can know');
  }

  #delete(name: string, node: string): void {
    const nodes = this.#others.get(name);
    if (nodes?.delete(node) !== true) return;
    this.#count--;
    this.#isFull = false;
    if (nodes.size === 0) this.#others.delete(name);
  }

  /** Removes the groups of nodes that are gone, and what the engine has not confirmed. */
  handleTick(): void {
    const { now } = this.#options;
    if (this.#forgottenUntil !== undefined && now() >= this.#forgottenUntil) this.#forgottenUntil = undefined;
    const isKnown = this.#forgottenUntil === undefined && !this.#entries.isStalled;
    this.#sweep(isKnown);
    for (const { key, node } of this.#orphans.take())
      this.#entries.write(key, () => this.#entries.put(key, undefined, node));
  }

  /** @param isKnown whether the engine knows all groups. */
  #sweep(isKnown: boolean): void {
    const { now, isNodeAlive } = this.#options;
    let swept = 0;
    for (const [name, nodes] of this.#others)
      for (const [node, { isStated, seenAt }] of nodes) {
        const isNew = now() - seenAt < GRACE_MS;
        if (isNodeAlive(node) ? isStated || isNew || !isKnown : isNew) continue;
        if (swept++ >= MAX_SWEPT) return;
        this.#delete(name, node);
        if (isStated) this.#orphans.add(keyOf(name, node), node, node);
      }
  }

  /** Reads the table or the next changes. */
  async #next(): Promise<void> {
    const { table } = this.#entries;
    const changes = this.#position === undefined ? undefined : await table.changes(this.#position);
    if (this.#entries.isStopped) return;
    if (changes === undefined) await this.#reload();
    else for (const change of changes) this.#apply(change);
  }

  async #reload(): Promise<void> {
    const { incarnation, now } = this.#options;
    const { entries, position } = await this.#entries.table.read();
    if (this.#entries.isStopped) return;
    if (this.#position !== undefined && position < this.#position) this.#forgottenUntil = now() + GRACE_MS;
    this.#position = position;
    // Those that the engine does not name any more are removed with a tick, unless their nodes announce them again.
    for (const nodes of this.#others.values()) for (const other of nodes.values()) other.isStated = false;
    this.#orphans.clear();
    for (const [key, entry] of entries) this.#take(key, entry);
    for (const name of this.#own) if (!entries.has(keyOf(name, incarnation))) this.#write(name);
  }

  #apply({ position, key, entry }: TableChange): void {
    this.#position = position;
    this.#orphans.delete(key);
    if (entry !== undefined) return this.#take(key, entry);
    const { incarnation } = this.#options;
    const [name = '', node = ''] = textsOf(key);
    if (node !== incarnation) return this.#handleRemoved(name, node);
    // Another node took this one for dead, or a write was executed late.
    if (this.#own.has(name) && !this.#entries.isWriting(key)) this.#write(name);
  }

  /** The engine may not know yet what the node has said itself. */
  #handleRemoved(name: string, node: string): void {
    const known = this.#others.get(name)?.get(node);
    if (known === undefined || this.#options.now() - known.seenAt >= GRACE_MS)
      return this.#delete(name, node);
    known.isStated = false;
  }

  #take(key: string, { holder: node, record: name }: TableEntry): void {
    // Another node wrote something that this one does not understand.
    if (keyOf(name, node) !== key) return;
    if (node !== this.#options.incarnation) return this.#set(name, node, true);
    if (!this.#own.has(name) && !this.#entries.isWriting(key)) this.#write(name);
  }
}
