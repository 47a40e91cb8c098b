/** Slots of a new queue. An emptied one keeps its slots, so that filling it again costs nothing. */
const KEPT_SLOTS = 4;
/** A queue of at least this many slots gives them up when it becomes empty. */
const SHRINK_FROM = 64;

/**
 * A first-in, first-out queue for the data path, where queues often run empty. It is a ring buffer, so that
 * adding or removing at either end moves no other item.
 */
export class Fifo<Item> {
  /** The number of slots is a power of two. */
  #slots: (Item | undefined)[] | undefined;
  #head = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The item that the next `shift` returns. */
  get first(): Item | undefined {
    return this.#slots?.[this.#head];
  }

  /** The last item. */
  get last(): Item | undefined {
    const slots = this.#slots;
    if (slots === undefined || this.#size === 0) return undefined;
    return slots[(this.#head + this.#size - 1) & (slots.length - 1)];
  }

  push(item: Item): void {
    let slots = this.#slots;
    if (slots === undefined) {
      slots = new Array(KEPT_SLOTS);
      this.#slots = slots;
    } else if (this.#size === slots.length) {
      slots = this.#resize(slots.length * 2);
    }
    slots[(this.#head + this.#size) & (slots.length - 1)] = item;
    this.#size++;
  }

  /** Puts `item` before the others. */
  unshift(item: Item): void {
    this.push(item);
    const slots = this.#slots as (Item | undefined)[];
    const mask = slots.length - 1;
    slots[(this.#head + this.#size - 1) & mask] = undefined;
    this.#head = (this.#head - 1) & mask;
    slots[this.#head] = item;
  }

  shift(): Item | undefined {
    const slots = this.#slots;
    if (slots === undefined || this.#size === 0) return undefined;
    const item = slots[this.#head];
    // Let the garbage collector have the item.
    slots[this.#head] = undefined;
    this.#size--;
    this.#head = (this.#head + 1) & (slots.length - 1);
    if (this.#size === 0 && slots.length >= SHRINK_FROM) this.clear();
    return item;
  }

  /** Replaces the first item. */
  replaceFirst(item: Item): void {
    if (this.#slots !== undefined && this.#size > 0) this.#slots[this.#head] = item;
  }

  /** Removes `item`, at any position. */
  delete(item: Item): void {
    const others = [...this].filter((other) => other !== item);
    this.clear();
    for (const other of others) this.push(other);
  }

  clear(): void {
    this.#slots = undefined;
    this.#head = 0;
    this.#size = 0;
  }

  /** Yields the items from first to last, without removing them. */
  *[Symbol.iterator](): Iterator<Item> {
    const slots = this.#slots ?? [];
    for (let i = 0; i < this.#size; i++) yield slots[(this.#head + i) & (slots.length - 1)] as Item;
  }

  #resize(capacity: number): (Item | undefined)[] {
    const slots: (Item | undefined)[] = new Array(capacity);
    let at = 0;
    for (const item of this) slots[at++] = item;
    this.#slots = slots;
    this.#head = 0;
    return slots;
  }
}
