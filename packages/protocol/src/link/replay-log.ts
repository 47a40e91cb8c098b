import type { FrameMemory } from './frame-memory.js';

/**
 * The frames of a session that were written and not confirmed, in order. Where each of them lies is
 * kept as numbers: an object for every frame would outlive young garbage and be collected dearly.
 */
export class ReplayLog {
  readonly #memory: FrameMemory;
  readonly #buffers: Uint8Array<ArrayBuffer>[] = [];
  readonly #offsets: number[] = [];
  readonly #lengths: number[] = [];
  /** Index of the oldest frame; the arrays are compacted now and then. */
  #head = 0;
  #bytes = 0;

  constructor(memory: FrameMemory) {
    this.#memory = memory;
  }

  get size(): number {
    return this.#buffers.length - this.#head;
  }

  /** What the frames take, roughly. */
  get memory(): number {
    return this.#bytes + this.size * FRAME_OVERHEAD;
  }

  append(buffer: Uint8Array<ArrayBuffer>, offset: number, length: number): void {
    this.#buffers.push(buffer);
    this.#offsets.push(offset);
    this.#lengths.push(length);
    this.#bytes += length;
  }

  /** The frame at `index`, 0 being the oldest. */
  at(index: number): Uint8Array<ArrayBuffer> | undefined {
    const i = this.#head + index;
    const offset = this.#offsets[i] as number;
    return this.#buffers[i]?.subarray(offset, offset + (this.#lengths[i] as number));
  }

  /** Forgets the oldest `count` frames. */
  drop(count: number): void {
    const end = Math.min(this.#head + count, this.#buffers.length);
    for (let i = this.#head; i < end; i++) {
      const length = this.#lengths[i] as number;
      this.#bytes -= length;
      this.#memory.giveBack(this.#buffers[i] as Uint8Array<ArrayBuffer>, this.#offsets[i] as number, length);
      this.#buffers[i] = NONE;
    }
    this.#head = end;
    if (end < COMPACT_AT) return;
    this.#buffers.splice(0, end);
    this.#offsets.splice(0, end);
    this.#lengths.splice(0, end);
    this.#head = 0;
  }

  /** Forgets all, without using its memory again. */
  clear(): void {
    this.#buffers.length = 0;
    this.#offsets.length = 0;
    this.#lengths.length = 0;
    this.#head = 0;
    this.#bytes = 0;
  }
}

/** In place of memory that is not needed any more. */
const NONE = new Uint8Array(0);

/** What keeping a frame takes beside its bytes. */
const FRAME_OVERHEAD = 32;

/**
 * Forgotten frames that stand before the others at most: moving these at every step would be quadratic,
 * and an array that is emptied takes its memory anew.
 */
const COMPACT_AT = 256;
