/** Items by size, of which the largest is found at once (a binary heap). */
export class Largest<Item extends { readonly bytes: number }> {
  readonly #heap: Item[] = [];
  readonly #places = new Map<Item, number>();

  get(): Item | undefined {
    return this.#heap[0];
  }

  has(item: Item): boolean {
    return this.#places.has(item);
  }

  add(item: Item): void {
    if (this.has(item)) return;
    this.#put(item, this.#heap.length);
    this.update(item);
  }

  delete(item: Item): void {
    const place = this.#places.get(item);
    if (place === undefined) return;
    const last = this.#heap.pop() as Item;
    this.#places.delete(item);
    if (last === item) return;
    this.#put(last, place);
    this.update(last);
  }

  /** The size of an item has changed. */
  update(item: Item): void {
    const place = this.#places.get(item);
    if (place === undefined) return;
    this.#sink(this.#rise(place));
  }

  #rise(from: number): number {
    let place = from;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (this.#sizeAt(above) >= this.#sizeAt(place)) break;
      this.#swap(above, place);
      place = above;
    }
    return place;
  }

  #sink(from: number): void {
    for (let place = from; ; ) {
      const [left, right] = [2 * place + 1, 2 * place + 2];
      const below = this.#sizeAt(right) > this.#sizeAt(left) ? right : left;
      if (this.#sizeAt(below) <= this.#sizeAt(place)) return;
      this.#swap(below, place);
      place = below;
    }
  }

  #sizeAt(place: number): number {
    return this.#heap[place]?.bytes ?? Number.NEGATIVE_INFINITY;
  }

  #swap(a: number, b: number): void {
    const [one, other] = [this.#heap[a] as Item, this.#heap[b] as Item];
    this.#put(one, b);
    this.#put(other, a);
  }

  #put(item: Item, place: number): void {
    this.#heap[place] = item;
    this.#places.set(item, place);
  }
}
