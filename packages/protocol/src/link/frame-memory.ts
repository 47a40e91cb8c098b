/**
 * Memory for the frames that one session writes and keeps until its peer has confirmed them.
 *
 * Small frames go round in a ring of the session's own, which grows with what is under way: a buffer for
 * each costs more than filling it, as it is a piece of memory outside the heap that the collector has to
 * account for, and what waits to be confirmed outlives young garbage. What finds no room there is cut from
 * slabs that all sessions share, and is garbage afterwards; so are frames that are not kept.
 *
 * A larger frame has a buffer of its own, which the session fills again once the frame is confirmed.
 *
 * Nothing is filled again by another session: a peer may confirm what still waits in its socket, and would
 * then read there what was written since.
 */

const SLAB_SIZE = 16 * 1024;
const MAX_SLAB_FRAME = 2 * 1024;
/** A ring begins with this, as most sessions say little, and doubles up to that. */
const MIN_RING = 4 * 1024;
const MAX_RING = 128 * 1024;
/**
 * Bytes of buffers that a session keeps for its next frames, and that all sessions keep together: a
 * session that sends a tensor goes round in as much memory as is under way of it, a window of one stream.
 */
const MAX_SPARE = 1088 * 1024;
const MAX_SPARE_OF_ALL = 16 * 1024 * 1024;

const EMPTY = new Uint8Array(0);
let slab = EMPTY;
let slabUsed = 0;
let spareOfAll = 0;

export class FrameMemory {
  /** Where the frame that was asked for last has its place. */
  buffer: Uint8Array<ArrayBuffer> = slab;
  offset = 0;
  #spare: Uint8Array<ArrayBuffer>[] = [];
  #spareBytes = 0;
  #ring: Uint8Array<ArrayBuffer> = EMPTY;
  /** Frames in the ring; they lie from `#ringStart` to `#ringEnd`, around its end where that is smaller. */
  #ringFrames = 0;
  #ringStart = 0;
  #ringEnd = 0;

  /**
   * Finds `length` bytes for a frame: from {@link offset} on in {@link buffer}.
   *
   * @param isKept whether the frame will be given back.
   */
  take(length: number, isKept: boolean): void {
    if (length > MAX_SLAB_FRAME) {
      this.buffer = this.#takeSpare(length) ?? new Uint8Array(capacityFor(length));
      this.offset = 0;
      return;
    }
    if (isKept && this.#takeFromRing(length)) return;
    if (slabUsed + length > slab.length) {
      slab = new Uint8Array(SLAB_SIZE);
      slabUsed = 0;
    }
    this.buffer = slab;
    this.offset = slabUsed;
    slabUsed += length;
  }

  /** Nobody needs the oldest frame any more: `length` bytes from `offset` on in `buffer`. */
  giveBack(buffer: Uint8Array<ArrayBuffer>, offset: number, length: number): void {
    if (length <= MAX_SLAB_FRAME) {
      if (buffer !== this.#ring) return;
      this.#ringFrames--;
      this.#ringStart = offset + length;
      return;
    }
    const { length: size } = buffer;
    if (this.#spareBytes + size > MAX_SPARE || spareOfAll + size > MAX_SPARE_OF_ALL) return;
    this.#spare.push(buffer);
    this.#spareBytes += size;
    spareOfAll += size;
  }

  /** Keeps no memory for frames to come: the session is over, or has been silent for a while. */
  release(): void {
    this.buffer = EMPTY;
    this.#beginRing(EMPTY);
    if (this.#spare.length === 0) return;
    this.#spare = [];
    spareOfAll -= this.#spareBytes;
    this.#spareBytes = 0;
  }

  #takeFromRing(length: number): boolean {
    for (;;) {
      const at = this.#placeInRing(length);
      if (at !== undefined) {
        if (this.#ringFrames === 0) this.#ringStart = at;
        this.buffer = this.#ring;
        this.offset = at;
        this.#ringEnd = at + length;
        this.#ringFrames++;
        return true;
      }
      const size = Math.max(MIN_RING, 2 * this.#ring.length);
      if (size > MAX_RING) return false;
      // The frames in the old one stay where they are, for as long as somebody may need them.
      this.#beginRing(new Uint8Array(size));
    }
  }

  /** Where `length` bytes are free. Start and end are equal in an empty ring only. */
  #placeInRing(length: number): number | undefined {
    const { length: size } = this.#ring;
    if (this.#ringFrames === 0) return length <= size ? 0 : undefined;
    const [start, end] = [this.#ringStart, this.#ringEnd];
    if (end < start) return end + length < start ? end : undefined;
    if (end + length <= size) return end;
    return length < start ? 0 : undefined;
  }

  #beginRing(ring: Uint8Array<ArrayBuffer>): void {
    this.#ring = ring;
    this.#ringFrames = 0;
    this.#ringStart = 0;
    this.#ringEnd = 0;
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

/** Whole pages, so that frames of about one size fit in each other's buffers. */
const PAGE = 4 * 1024;
const capacityFor = (length: number): number => Math.ceil(length / PAGE) * PAGE;
