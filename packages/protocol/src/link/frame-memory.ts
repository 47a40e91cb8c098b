/**
 * Memory for the frames that one session writes and keeps until its peer has confirmed them.
 *
 * Small frames are cut from slabs that all sessions share: a buffer of its own for each costs more than
 * filling it, as each is a piece of memory outside the heap that the collector has to account for. A
 * frame that waits to be confirmed keeps its whole slab, so a slab is no larger than it has to be.
 *
 * A larger frame has a buffer of its own, which the session fills again once the frame is confirmed.
 * Never another session: a peer may confirm what still waits in its socket, and would then read there
 * what was written since.
 */

const SLAB_SIZE = 16 * 1024;
const MAX_SLAB_FRAME = 2 * 1024;
/**
 * Bytes of buffers that a session keeps for its next frames, and that all sessions keep together: a
 * session that sends a tensor goes round in as much memory as is under way of it, a window of one stream.
 */
const MAX_SPARE = 1088 * 1024;
const MAX_SPARE_OF_ALL = 16 * 1024 * 1024;

let slab = new Uint8Array(0);
let slabUsed = 0;
let spareOfAll = 0;

export class FrameMemory {
  /** Where the frame that was asked for last has its place. */
  buffer: Uint8Array<ArrayBuffer> = slab;
  offset = 0;
  #spare: Uint8Array<ArrayBuffer>[] = [];
  #spareBytes = 0;

  /** Finds `length` bytes for a frame: from {@link offset} on in {@link buffer}. */
  take(length: number): void {
    if (length > MAX_SLAB_FRAME) {
      this.buffer = this.#takeSpare(length) ?? new Uint8Array(capacityFor(length));
      this.offset = 0;
      return;
    }
    if (slabUsed + length > slab.length) {
      slab = new Uint8Array(SLAB_SIZE);
      slabUsed = 0;
    }
    this.buffer = slab;
    this.offset = slabUsed;
    slabUsed += length;
  }

  /** Nobody needs the frame of `length` bytes any more that was written to `buffer`. */
  giveBack(buffer: Uint8Array<ArrayBuffer>, length: number): void {
    const { length: size } = buffer;
    if (length <= MAX_SLAB_FRAME) return;
    if (this.#spareBytes + size > MAX_SPARE || spareOfAll + size > MAX_SPARE_OF_ALL) return;
    this.#spare.push(buffer);
    this.#spareBytes += size;
    spareOfAll += size;
  }

  /** Keeps no memory for frames to come: the session is over, or has been silent for a while. */
  release(): void {
    this.buffer = EMPTY;
    if (this.#spare.length === 0) return;
    this.#spare = [];
    spareOfAll -= this.#spareBytes;
    this.#spareBytes = 0;
  }

  #takeSpare(length: number): Uint8Array<ArrayBuffer> | undefined {
    const spare = this.#spare.pop();
    if (spare === undefined) return undefined;
    this.#spareBytes -= spare.length;
    spareOfAll -= spare.length;
    // One that does not fit is dropped, so that the spares come to be of the size that is needed.
    return spare.length >= length && spare.length <= 4 * length ? spare : undefined;
  }
}

const EMPTY = new Uint8Array(0);

/** Whole pages, so that frames of about one size fit in each other's buffers. */
const PAGE = 4 * 1024;
const capacityFor = (length: number): number => Math.ceil(length / PAGE) * PAGE;
