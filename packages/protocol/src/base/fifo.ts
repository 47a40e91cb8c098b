/** Slots that an empty queue keeps, so that filling it again costs nothing. */
const KEPT_SLOTS = 4;
/** An array that was emptied gives its memory back, and takes it anew with the next item. */
const SHRINK_FROM = 64;

/**
 * A first-in, first-out queue that is empty again and again, as those on the data path are: a ring, so
 * that neither end moves the others.
 */
export class Fifo<Item> {
  /** A power of two of them. */
  #slots: (Item | undefined)[] | undefined;
  #head = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The item that `shift` returns next. */
  get first(): Item | undefined {
    return this.#slots?.[this.#head];
  }

  /** The item that was pushed last. */
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

  /** Puts `item` in front of the others. */
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
    // What was taken is not kept.
    slots[this.#head] = undefined;
    this.#size--;
    this.#head = (this.#head + 1) & (slots.length - 1);
    if (this.#size === 0 && slots.length >= SHRINK_FROM) this.clear();
    return item;
  }

  /** Puts `item` in the place of the first one. */
  replaceFirst(item: Item): void {
    if (this.#slots !== undefined && this.#size > 0) this.#slots[this.#head] = item;
  }

  /** Takes `item` out, wherever it is. */
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

  /** From the first to the last, which stay. */
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
