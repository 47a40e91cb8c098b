import type { OutgoingBody } from './frame.js';
import { FrameMemory } from './frame-memory.js';
import type { KeptMessages } from './kept-messages.js';

/**
 * The counted frames that this end has written. They are counted, they get their memory here, and if the
 * session can resume they are kept until the peer confirms them, so that they can be written again.
 */
export class WrittenFrames {
  /** Frames written since the session began. */
  count = 0;
  /** Keep frames until they are confirmed. */
  readonly retain: boolean;
  /** Bytes of frames that may be kept. */
  maxRetained = Infinity;
  /** The messages among them; `undefined` if the link is never rebuilt. */
  messages: KeptMessages | undefined;
  /** Created with the first frame: most sessions are idle. */
  #memory: FrameMemory | undefined;
  /** Frames from number `#confirmed` on. */
  #log: ReplayLog | undefined;
  #confirmed = 0;
  /** Index into `#log` of the next frame to be written again. */
  #replayAt: number | undefined;

  /** @param retain keeps frames until they are confirmed. */
  constructor(retain: boolean) {
    this.retain = retain;
  }

  /** Nothing more may be written until the peer confirms some frames. */
  get isFull(): boolean {
    if (!this.retain || this.#log === undefined) return false;
    // A message that was coded in context is larger than its frames.
    return this.#log.memory > this.maxRetained || (this.messages?.memory ?? 0) > this.maxRetained;
  }

  /** Bytes of memory taken by the frames that await confirmation. */
  get memory(): number {
    return this.retain ? (this.#log?.memory ?? 0) + (this.messages?.memory ?? 0) : 0;
  }

  get isReplaying(): boolean {
    return this.#replayAt !== undefined;
  }

  /** Index among {@link unconfirmed} of the next frame to be written again; `undefined` if none is. */
  get replayAt(): number | undefined {
    return this.#replayAt;
  }

  /** The kept frames that are not confirmed, oldest first. */
  *unconfirmed(): Iterable<Uint8Array> {
    const log = this.#log;
    for (let i = 0; log !== undefined && i < log.size; i++) yield log.at(i) as Uint8Array;
  }

  /** The peer has received `count` frames; forgets them. */
  confirm(count: number): void {
    if (!this.retain || count <= this.#confirmed) return;
    const dropped = count - this.#confirmed;
    this.#log?.drop(dropped);
    this.messages?.confirm(count);
    this.#confirmed = count;
    if (this.#replayAt !== undefined) this.#replayAt = Math.max(0, this.#replayAt - dropped);
  }

  /** The connection is lost. */
  pause(): void {
    this.#replayAt = undefined;
    this.#memory?.releaseAll();
  }

  /** Starts writing again the frames from number `count` on. */
  replayFrom(count: number): void {
    this.confirm(count);
    this.#replayAt = 0;
  }

  /**
   * Begins to count again, for a rebuilt link, and forgets all frames. Returns the messages that the peer has not
   * confirmed.
   */
  rebuild(): OutgoingBody[] {
    const messages = this.messages?.take() ?? [];
    this.clear();
    this.count = 0;
    this.#confirmed = 0;
    return messages;
  }

  /** The next frame to be written again, or `undefined` after the last one. */
  nextReplayed(): Uint8Array | undefined {
    if (this.#replayAt === undefined) return undefined;
    const frame = this.#log?.at(this.#replayAt++);
    if (frame === undefined) this.#replayAt = undefined;
    return frame;
  }

  /** Reserves memory for a frame of `length` bytes: at {@link offset} in {@link target}. */
  reserve(length: number): void {
    this.#memory ??= new FrameMemory();
    this.#memory.take(length, this.retain);
  }

  get target(): Uint8Array {
    return this.#reserved.buffer;
  }

  get offset(): number {
    return this.#reserved.offset;
  }

  /** Counts the frame in the memory reserved last, and returns it. */
  append(length: number): Uint8Array {
    this.count++;
    const { buffer, offset } = this.#reserved;
    if (this.retain) {
      this.#log ??= new ReplayLog(this.#reserved);
      this.#log.append(buffer, offset, length);
    }
    return buffer.subarray(offset, offset + length);
  }

  /** Defined after {@link reserve}. */
  get #reserved(): FrameMemory {
    return this.#memory as FrameMemory;
  }

  /** Counts a frame that was built elsewhere, and returns a copy in the session's own memory. */
  appendCopy(frame: Uint8Array): Uint8Array {
    this.reserve(frame.length);
    this.target.set(frame, this.offset);
    return this.append(frame.length);
  }

  clear(): void {
    this.#log?.clear();
    this.messages?.clear();
    this.#memory?.releaseAll();
    this.#replayAt = undefined;
  }

  /** Releases the memory that is kept in stock for later frames. */
  releaseMemory(): void {
    this.#memory?.releaseAll();
  }
}

/**
 * Frames in the order in which they were written. Their positions are kept as plain numbers: an object per
 * frame would outlive the young generation and make garbage collection expensive.
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

  /** Approximate bytes of memory taken by the frames. */
  get memory(): number {
    return this.#bytes + this.size * FRAME_OVERHEAD;
  }

  append(buffer: Uint8Array<ArrayBuffer>, offset: number, length: number): void {
    this.#buffers.push(buffer);
    this.#offsets.push(offset);
    this.#lengths.push(length);
    this.#bytes += length;
  }

  /** The frame at `index`; 0 is the oldest. */
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
      this.#memory.release(this.#buffers[i] as Uint8Array<ArrayBuffer>, this.#offsets[i] as number, length);
      this.#buffers[i] = NONE;
    }
    this.#head = end;
    if (end < COMPACT_AT) return;
    this.#buffers.splice(0, end);
    this.#offsets.splice(0, end);
    this.#lengths.splice(0, end);
    this.#head = 0;
  }

  /** Forgets all frames without reusing their memory. */
  clear(): void {
    this.#buffers.length = 0;
    this.#offsets.length = 0;
    this.#lengths.length = 0;
    this.#head = 0;
    this.#bytes = 0;
  }
}

/** Takes the place of a released buffer. */
const NONE = new Uint8Array(0);

/** Bytes of memory per kept frame beside its own. */
const FRAME_OVERHEAD = 32;

/**
 * Forgotten frames to collect before the arrays are compacted. Compacting after every confirmation would be
 * quadratic, and an array that is emptied has to be allocated again.
 */
const COMPACT_AT = 256;
