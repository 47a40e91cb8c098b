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
  #newest: Node<Item> | undefined;

  add(item: Item): void {
    const node: Node<Item> = { item, older: this.#newest, newer: undefined };
    if (node.older !== undefined) node.older.newer = node;
    this.#newest = node;
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
