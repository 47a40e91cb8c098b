/** The credit of one direction (section 4): absolute limits by stream. */

/** The windows that an end states in `extensions.link`; `Infinity` for those that it leaves out. */
export interface Windows {
  readonly maxStreams: number;
  readonly messages: number;
  readonly stream: number;
}

export class Credit {
  readonly #windows: Windows;
  readonly #limits = new Map<number, number>();
  readonly #spent = new Map<number, number>();

  constructor(windows: Windows) {
    this.#windows = windows;
  }

  /** The limits that are no longer the initial ones. */
  get raised(): ReadonlyMap<number, number> {
    return this.#limits;
  }

  windowOf(stream: number): number {
    return stream === 0 ? this.#windows.messages : this.#windows.stream;
  }

  limitOf(stream: number): number {
    return this.#limits.get(stream) ?? this.windowOf(stream);
  }

  spentOn(stream: number): number {
    return this.#spent.get(stream) ?? 0;
  }

  available(stream: number): number {
    return this.limitOf(stream) - this.spentOn(stream);
  }

  spend(stream: number, charge: number): void {
    this.#spent.set(stream, this.spentOn(stream) + charge);
  }

  /** A limit that is not above the present one changes nothing. */
  raise(stream: number, limit: number): void {
    if (limit > this.limitOf(stream)) this.#limits.set(stream, limit);
  }
}
