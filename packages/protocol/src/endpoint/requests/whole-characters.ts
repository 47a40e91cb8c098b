import { textOf } from './batch.js';

/** Stands for half of a surrogate pair whose other half does not come. */
const REPLACEMENT = '\ufffd';
const ENDS_IN_HALF = /[\ud800-\udbff]$/;
const BEGINS_WITH_REST = /^[\udc00-\udfff]/;

type Taken = Promise<void> | false | undefined;

/**
 * Passes on the parts of one reply. Sources of text cut it anywhere, and half of a surrogate pair has no UTF-8 form: the end of
 * a part of text waits for the part that completes it.
 */
export class WholeCharacters<Each> {
  readonly #take: (part: Each | string) => Taken;
  #half = '';

  constructor(take: (part: Each | string) => Taken) {
    this.#take = take;
  }

  /** As `take` of `takeParts`. */
  push(part: Each): Taken {
    const text = textOf(part);
    const half = this.#half;
    if (half === '' && (text === undefined || !ENDS_IN_HALF.test(text))) return this.#take(part);
    if (text === '') return undefined;
    if (text === undefined) return this.#endBefore(part);
    const isComplete = half === '' || BEGINS_WITH_REST.test(text);
    const joined = (isComplete ? half : REPLACEMENT) + text;
    this.#half = ENDS_IN_HALF.exec(joined)?.[0] ?? '';
    const whole = joined.slice(0, joined.length - this.#half.length);
    return whole === '' ? undefined : this.#take(whole);
  }

  /** The reply is over. */
  end(): Taken {
    if (this.#half === '') return undefined;
    this.#half = '';
    return this.#take(REPLACEMENT);
  }

  #endBefore(part: Each): Taken {
    const taken = this.end();
    if (taken === false) return false;
    if (taken === undefined) return this.#take(part);
    return taken.then(async () => void (await this.#take(part)));
  }
}

/** A whole reply, which nothing completes. */
export function withoutHalf<Reply>(reply: Reply): Reply | string {
  const text = textOf(reply);
  return text !== undefined && ENDS_IN_HALF.test(text) ? text.slice(0, -1) + REPLACEMENT : reply;
}
