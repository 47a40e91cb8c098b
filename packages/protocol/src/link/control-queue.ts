/** A frame outside every stream. */
export interface ControlFrame {
  readonly frame: Uint8Array | string;
  readonly counted: boolean;
}

/** Frames that are written ahead of all streams, counted ones behind what is replayed. */
export class ControlQueue {
  #frames: ControlFrame[] = [];

  get size(): number {
    return this.#frames.length;
  }

  push(frame: Uint8Array | string, counted: boolean): void {
    this.#frames.push({ frame, counted });
  }

  /** @param holdsCounted whether those that are counted have to wait. */
  shift(holdsCounted: boolean): ControlFrame | undefined {
    const frames = this.#frames;
    if (frames.length === 0) return undefined;
    const index = holdsCounted ? frames.findIndex(({ counted }) => !counted) : 0;
    if (index < 0) return undefined;
    const next = index === 0 ? frames.shift() : frames.splice(index, 1)[0];
    // An array keeps the memory of its best days, and most sessions say nothing for most of the time.
    if (frames.length === 0) this.#frames = [];
    return next;
  }

  /** Forgets what is said anew on the next connection. */
  dropUncounted(): void {
    this.#frames = this.#frames.filter(({ counted }) => counted);
  }
}
