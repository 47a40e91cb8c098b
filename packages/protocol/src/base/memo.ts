/** More keys than this, or longer ones, can only be generated ones. */
const MAX_KEYS = 64;
const MAX_KEY_LENGTH = 4096;

/**
 * Remembers the value of each text that peers of one build repeat. Bounded by {@link MAX_KEYS} and {@link MAX_KEY_LENGTH}, because
 * a hostile peer never repeats one.
 */
export class Memo<Value> {
  readonly #values = new Map<string, Value>();

  /** The value of `key`; calls `make` if it is not remembered. */
  recall(key: string, make: () => Value): Value {
    const known = this.#values.get(key);
    if (known !== undefined) return known;
    const made = make();
    if (key.length <= MAX_KEY_LENGTH) {
      if (this.#values.size >= MAX_KEYS) this.#values.clear();
      this.#values.set(key, made);
    }
    return made;
  }
}
