import { FrameMemory } from './frame-memory.js';
import { ReplayLog } from './replay-log.js';

/** The counted frames of a session: their number, their memory, and those that may have to be written again. */
export class WrittenFrames {
  /** Handed out since the session began. */
  count = 0;
  /** Keep frames until they are confirmed. */
  retain = false;
  /** Bytes of frames that may be kept. */
  maxRetained = Infinity;
  /** Made with the first frame: many sessions only wait. */
  #memory: FrameMemory | undefined;
  /** Frames from number `#confirmed` on. */
  #log: ReplayLog | undefined;
  #confirmed = 0;
  /** Index into `#log` of the next frame to be handed out again. */
  #replayAt: number | undefined;

  /** Nothing more may be written until the peer has confirmed some. */
  get isFull(): boolean {
    return this.retain && this.#log !== undefined && this.#log.memory > this.maxRetained;
  }

  /** Bytes that the frames take that are kept for the peer's confirmation. */
  get memory(): number {
    return this.retain ? (this.#log?.memory ?? 0) : 0;
  }

  get isReplaying(): boolean {
    return this.#replayAt !== undefined;
  }

  /** Those that were not confirmed, where they are kept. */
  *unconfirmed(): Iterable<Uint8Array> {
    const log = this.#log;
    for (let i = 0; log !== undefined && i < log.size; i++) yield log.at(i) as Uint8Array;
  }

  /** The peer has `count` frames; they are forgotten. */
  confirm(count: number): void {
    if (!this.retain || count <= this.#confirmed) return;
    const dropped = count - this.#confirmed;
    this.#log?.drop(dropped);
    this.#confirmed = count;
    if (this.#replayAt !== undefined) this.#replayAt = Math.max(0, this.#replayAt - dropped);
  }

  /** The connection is gone. */
  pause(): void {
    this.#replayAt = undefined;
    this.#memory?.release();
  }

  replayFrom(count: number): void {
    this.confirm(count);
    this.#replayAt = 0;
  }

  /** The next frame to be written again, `undefined` where all are. */
  nextReplayed(): Uint8Array | undefined {
    if (this.#replayAt === undefined) return undefined;
    const frame = this.#log?.at(this.#replayAt++);
    if (frame === undefined) this.#replayAt = undefined;
    return frame;
  }

  /** Finds memory for a frame of `length` bytes, which is put to {@link target} from {@link offset} on. */
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

  /** Counts the frame that was put to the memory reserved last. */
  append(length: number): Uint8Array {
    this.count++;
    const { buffer, offset } = this.#reserved;
    if (this.retain) {
      this.#log ??= new ReplayLog(this.#reserved);
      this.#log.append(buffer, offset, length);
    }
    return buffer.subarray(offset, offset + length);
  }

  /** Behind {@link reserve}. */
  get #reserved(): FrameMemory {
    return this.#memory as FrameMemory;
  }

  /** Counts a frame that exists already; what is kept of it is a copy in the session's own memory. */
  appendCopy(frame: Uint8Array): Uint8Array {
    this.reserve(frame.length);
    this.target.set(frame, this.offset);
    return this.append(frame.length);
  }

  clear(): void {
    this.#log?.clear();
    this.#memory?.release();
    this.#replayAt = undefined;
  }

  /** Keeps no memory in stock for frames to come. */
  releaseMemory(): void {
    this.#memory?.release();
  }
}
