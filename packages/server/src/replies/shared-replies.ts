/** As many as a list shows. */
export const MAX_PASSED = 1_000;

interface Node<Item> {
  readonly item: Item;
  older: Node<Item> | undefined;
  newer: Node<Item> | undefined;
}

/**
 * The replies that others may follow, the newest first. Reading them may go on while some are added and removed: an
 * item that stays is met once, however many there are.
 */
export class SharedReplies<Item> implements Iterable<Item> {
  readonly #nodes = new Map<Item, Node<Item>>();
  readonly #isOlder: (a: Item, b: Item) => boolean;
  #newest: Node<Item> | undefined;

  constructor(isOlder: (a: Item, b: Item) => boolean) {
    this.#isOlder = isOlder;
  }

  /** An item that is not the newest one is put behind newer ones, though behind {@link MAX_PASSED} at most. */
  add(item: Item): void {
    let [newer, older]: [Node<Item> | undefined, Node<Item> | undefined] = [undefined, this.#newest];
    for (let passed = 0; older !== undefined && passed < MAX_PASSED; passed++) {
      if (!this.#isOlder(item, older.item)) break;
      [newer, older] = [older, older.older];
    }
    const node: Node<Item> = { item, older, newer };
    if (older !== undefined) older.newer = node;
    if (newer === undefined) this.#newest = node;
    else newer.older = node;
    this.#nodes.set(item, node);
  }

  delete(item: Item): void {
    const node = this.#nodes.get(item);
    if (node === undefined) return;
    this.#nodes.delete(item);
    if (node.older !== undefined) node.older.newer = node.newer;
    // A reader that stands at the node goes on from there.
    if (node.newer === undefined) this.#newest = node.older;
    else node.newer.older = node.older;
  }

  *[Symbol.iterator](): Iterator<Item> {
    for (let node = this.#newest; node !== undefined; node = node.older) yield node.item;
  }
}
