/** A timer that lets what has already arrived be read before it counts, so that a busy process blames no connection. */
export class Late {
  readonly #timer: ReturnType<typeof setTimeout>;
  #last: ReturnType<typeof setImmediate> | undefined;

  constructor(ms: number, onLate: () => void) {
    this.#timer = setTimeout(() => {
      this.#last = setImmediate(onLate);
    }, ms);
  }

  cancel(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#last);
  }
}

/** @throws {Error} what `tooLate` makes; what `work` throws. */
export async function within<T>(work: Promise<T>, ms: number, tooLate: (ms: number) => Error): Promise<T> {
  work.catch(() => {});
  return await new Promise<T>((resolve, reject) => {
    const late = new Late(ms, () => reject(tooLate(ms)));
    work.then(resolve, reject).finally(() => late.cancel());
  });
}
