/** How long a node has to remove entries before the next one does, in milliseconds. */
const TURN_MS = 2_000;

export interface OrphansOptions {
  /** This node. */
  readonly incarnation: string;
  /** Clock reading in milliseconds. */
  readonly now: () => number;
  readonly isNodeAlive: (incarnation: string) => boolean;
  /** All other nodes that are known. */
  readonly others: () => Iterable<string>;
}

/** An entry of a table whose node is gone. */
interface Orphan {
  readonly key: string;
  readonly holder: string;
  readonly node: string;
  readonly since: number;
}

/**
 * Entries that the engine still has of nodes that are gone. If all nodes removed them, they would do so at once. So
 * only the node after the dead one removes them, in the order of names, in which the first name follows the last. If
 * that node does not, the one after it does.
 */
export class Orphans {
  readonly #options: OrphansOptions;
  readonly #byKey = new Map<string, Orphan>();

  constructor(options: OrphansOptions) {
    this.#options = options;
  }

  add(key: string, holder: string, node: string): void {
    this.#byKey.set(key, { key, holder, node, since: this.#options.now() });
  }

  /** The engine has something else under the key, or nothing. */
  delete(key: string): void {
    this.#byKey.delete(key);
  }

  clear(): void {
    this.#byKey.clear();
  }

  /** Those that this node has to remove now, each once. */
  take(): readonly Orphan[] {
    if (this.#byKey.size === 0) return [];
    const now = this.#options.now();
    const places = new Map<string, number>();
    const due: Orphan[] = [];
    for (const orphan of this.#byKey.values()) {
      const { node, since } = orphan;
      const place = places.get(node) ?? this.#placeAfter(node);
      places.set(node, place);
      if (now - since >= place * TURN_MS) due.push(orphan);
    }
    for (const { key } of due) this.#byKey.delete(key);
    return due;
  }

  /** How many living nodes are between a dead one and this one. */
  #placeAfter(node: string): number {
    const { incarnation: own, others, isNodeAlive } = this.#options;
    let place = 0;
    for (const other of others()) {
      const isBetween = node < own ? node < other && other < own : node < other || other < own;
      if (isBetween && isNodeAlive(other)) place++;
    }
    return place;
  }
}
