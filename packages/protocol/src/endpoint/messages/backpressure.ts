import type { SessionCore } from '../../session/types.js';

/** Bytes of memory that may be queued on a stream before its sender waits. */
const STREAM_HIGH_WATER = 256 * 1024;
/** The same while all streams of the session together hold more than {@link SESSION_HIGH_WATER}. */
const STREAM_LOW_WATER = 32 * 1024;
const SESSION_HIGH_WATER = 4 * 1024 * 1024;
/** The same for messages while the peer's rate holds them back: with more, they would be old when they are written. */
const PACED_HIGH_WATER = 8 * 1024;
const RESOLVED = Promise.resolve();

interface Waiting {
  /** Bytes of bodies; `undefined` if the amount of memory decides. */
  readonly below: number | undefined;
  readonly resolve: () => void;
}

/** Senders that wait for room on their stream. */
export class Backpressure {
  /** By stream; most sessions never have one. */
  #waiting: Map<number, Waiting[]> | undefined;

  /**
   * Resolves when the queue of a stream is short enough, or the peer no longer wants the stream.
   *
   * @param below bytes of bodies that the queue must stay below.
   * @default less than 256 KiB of memory, 32 KiB while the session holds more than 4 MiB, and for messages 8 KiB while a
   * rate holds them back
   */
  wait(core: SessionCore, streamId: number, below?: number): Promise<void> {
    if (hasRoom(core, streamId, below)) return RESOLVED;
    return new Promise((resolve) => {
      this.#waiting ??= new Map();
      const waiting = this.#waiting.get(streamId);
      if (waiting === undefined) this.#waiting.set(streamId, [{ below, resolve }]);
      else waiting.push({ below, resolve });
    });
  }

  /**
   * Wakes the senders that have room now, or all of them if `core` is `undefined`: nothing more will be
   * written.
   */
  wake(core: SessionCore | undefined): void {
    if (this.#waiting === undefined) return;
    for (const [streamId, waiting] of this.#waiting) {
      const ready = waiting.filter(({ below }) => core === undefined || hasRoom(core, streamId, below));
      if (ready.length === 0) continue;
      if (ready.length === waiting.length) this.#waiting.delete(streamId);
      else
        this.#waiting.set(
          streamId,
          waiting.filter((each) => !ready.includes(each)),
        );
      for (const { resolve } of ready) resolve();
    }
    if (this.#waiting.size === 0) this.#waiting = undefined;
  }
}

/** See {@link Backpressure.wait}. */
export function hasRoom(core: SessionCore, streamId: number, below?: number): boolean {
  if (below !== undefined) return core.channel.queuedOn(streamId) < below;
  const queued = core.channel.memoryOf(streamId);
  if (streamId === 0 && core.isPaced) return queued < PACED_HIGH_WATER;
  return queued < STREAM_LOW_WATER || (queued < STREAM_HIGH_WATER && core.heldBytes <= SESSION_HIGH_WATER);
}
