/**
 * Memory for the frames that one session writes and keeps until its peer confirms them.
 *
 * Small frames go into a ring that belongs to the session and grows with the number of frames in flight. A
 * buffer per frame would cost more than filling it: the collector has to account for memory outside the heap,
 * and frames that await confirmation outlive the young generation. Frames that do not fit into the ring, and
 * frames that are not kept, are cut from slabs shared by all sessions and collected as garbage.
 *
 * A larger frame has a buffer of its own, which the session reuses once the frame is confirmed.
 *
 * A session never reuses another session's memory: a peer may confirm a frame that is still in its socket
 * buffer, and would then read what was written there since.
 */

const SLAB_SIZE = 16 * 1024;
const MAX_SLAB_FRAME = 2 * 1024;
/** Initial and largest size of a ring, which doubles as needed: most sessions write little. */
const MIN_RING = 4 * 1024;
const MAX_RING = 128 * 1024;
/**
 * Bytes of spare buffers that one session may keep. A session that sends a tensor reuses as much memory as is in
 * flight: the window of one stream.
 */
const MAX_SPARE = 1088 * 1024;
/**
 * All sessions together may keep this much, and as much again as their frames in flight take: with a thousand sessions
 * that send 16 KiB each, some wait for a confirmation while others have spares, and all of them continue to send.
 */
const MIN_SPARE_OF_ALL = 16 * 1024 * 1024;

const EMPTY = new Uint8Array(0);
let slab = EMPTY;
let slabUsed = 0;
let spareOfAll = 0;
let inFlightOfAll = 0;

export class FrameMemory {
  /** The memory that was taken last begins at {@link offset} in this buffer. */
  buffer: Uint8Array<ArrayBuffer> = slab;
  offset = 0;
  #spare: Uint8Array<ArrayBuffer>[] = [];
  #spareBytes = 0;
  /** Bytes of the buffers of kept frames. Those from before {@link releaseAll} are not counted. */
  #inFlight = 0;
  #ring: Uint8Array<ArrayBuffer> = EMPTY;
  /** Frames in the ring. They lie from `#ringStart` to `#ringEnd`, and wrap around if that is smaller. */
  #ringFrames = 0;
  #ringStart = 0;
  #ringEnd = 0;

  /**
   * Finds `length` bytes for a frame: at {@link offset} in {@link buffer}.
   *
   * @param isKept whether {@link release} will be called for the frame.
   */
  take(length: number, isKept: boolean): void {
    if (length > MAX_SLAB_FRAME) {
      this.buffer = this.#takeSpare(length) ?? new Uint8Array(capacityFor(length));
      this.offset = 0;
      if (isKept) this.#count(this.buffer.length);
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

  /** Releases the oldest kept frame: `length` bytes at `offset` in `buffer`. */
  release(buffer: Uint8Array<ArrayBuffer>, offset: number, length: number): void {
    if (length <= MAX_SLAB_FRAME) {
      if (buffer !== this.#ring) return;
      this.#ringFrames--;
      this.#ringStart = offset + length;
      return;
    }
    const { length: size } = buffer;
    const most = MIN_SPARE_OF_ALL + inFlightOfAll;
    this.#count(-Math.min(size, this.#inFlight));
    if (this.#spareBytes + size > MAX_SPARE || spareOfAll + size > most) return;
    this.#spare.push(buffer);
    this.#spareBytes += size;
    spareOfAll += size;
  }

  /** Keeps no memory for later frames: the session is over, or has been silent for a while. */
  releaseAll(): void {
    this.buffer = EMPTY;
    this.#startRing(EMPTY);
    this.#count(-this.#inFlight);
    if (this.#spare.length === 0) return;
    this.#spare = [];
    spareOfAll -= this.#spareBytes;
    this.#spareBytes = 0;
  }

  #count(bytes: number): void {
    this.#inFlight += bytes;
    inFlightOfAll += bytes;
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
      // Frames in the old ring stay there until they are released.
      this.#startRing(new Uint8Array(size));
    }
  }

  /** The position of `length` free bytes. Start and end are equal only if the ring is empty. */
  #placeInRing(length: number): number | undefined {
    const { length: size } = this.#ring;
    if (this.#ringFrames === 0) return length <= size ? 0 : undefined;
    const [start, end] = [this.#ringStart, this.#ringEnd];
    if (end < start) return end + length < start ? end : undefined;
    if (end + length <= size) return end;
    return length < start ? 0 : undefined;
  }

  #startRing(ring: Uint8Array<ArrayBuffer>): void {
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
    // A buffer of the wrong size is dropped, so that the stock adapts to the sizes in use.
    return spare.length >= length && spare.length <= 4 * length ? spare : undefined;
  }
}

/** Whole pages, so that frames of similar size fit into each other's buffers. */
const PAGE = 4 * 1024;
const capacityFor = (length: number): number => Math.ceil(length / PAGE) * PAGE;
