import { importSentences, type Sentence } from './sentence-table.js';

/**
 * The sentences of errors in pages. The build takes them out of the code that every page loads (`scripts/sentences.mjs`) and
 * leaves calls of {@link say}: an error has its code and its values at once, and its sentence when those are loaded, which
 * is soon after a session has begun, or with the first error.
 */

let known: readonly Sentence[] | undefined;
let loading: Promise<void> | undefined;
/** Errors that were made without their sentence; each promise resolves when they have it, or it cannot be loaded. */
const incomplete = new WeakMap<object, Promise<void>>();

/** A sentence with its values, some of which may be sentences as well. */
class Unsaid {
  readonly #number: number;
  readonly #values: readonly unknown[];

  constructor(number: number, values: readonly unknown[]) {
    this.#number = number;
    this.#values = values;
  }

  toString(): string {
    const values = this.#values.map(String);
    const sentence = known?.[this.#number];
    if (sentence === undefined)
      return `the code says what went wrong; sentence ${this.#number} is not loaded (${values.join(', ')})`;
    return sentence.map((text, i) => text + (values[i] ?? '')).join('');
  }
}

/** The build replaces each sentence with a call of this. */
export function say(number: number, ...values: readonly unknown[]): unknown {
  return new Unsaid(number, values);
}

/** Gives the error its sentence when it is loaded. */
export function complete(error: Error, message: unknown): void {
  if (known !== undefined || !(message instanceof Unsaid)) return;
  const { message: before } = error;
  const said = loadSentences().then(() => {
    error.message = String(message);
    // Engines have put the message into the stack, which is what consoles show.
    error.stack &&= error.stack.replace(before, () => error.message);
  });
  incomplete.set(error, said);
}

/** Resolves when the error has its sentence, or it cannot be loaded; `undefined` if there is nothing to wait for. */
export function sentenceOf(error: unknown): Promise<void> | undefined {
  return incomplete.get(error as object);
}

/** Loads all sentences. Never rejects: errors without a sentence have their code, and the next call tries again. */
export function loadSentences(): Promise<void> {
  loading ??= importSentences().then(
    ({ sentences }) => {
      known = sentences;
    },
    () => {
      loading = undefined;
    },
  );
  return loading;
}
