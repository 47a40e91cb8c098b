import type { SessionCore } from '../session-core.js';

/** Bytes that may wait on a stream before its sender waits. */
const STREAM_HIGH_WATER = 256 * 1024;
const RESOLVED = Promise.resolve();

interface Waiting {
  readonly below: number;
  readonly resolve: () => void;
}

/** Senders that wait for room on their stream. */
export class Backpressure {
  /** By stream; most sessions never have one. */
  #waiting: Map<number, Waiting[]> | undefined;

  /** Resolves when fewer than `below` bytes wait on a stream, or it is known that nobody wants them. */
  wait(core: SessionCore, streamId: number, below = STREAM_HIGH_WATER): Promise<void> {
    if (core.queuedBytes < below || core.queuedOn(streamId) < below) return RESOLVED;
    return new Promise((resolve) => {
      this.#waiting ??= new Map();
      const waiting = this.#waiting.get(streamId);
      if (waiting === undefined) this.#waiting.set(streamId, [{ below, resolve }]);
      else waiting.push({ below, resolve });
    });
  }

  /** @param core `undefined` where nothing will be written any more. */
  wake(core: SessionCore | undefined): void {
    if (this.#waiting === undefined) return;
    for (const [streamId, waiting] of this.#waiting) {
      const queued = core?.queuedOn(streamId) ?? 0;
      const others = waiting.filter(({ below }) => queued >= below);
      if (others.length === waiting.length) continue;
      if (others.length === 0) this.#waiting.delete(streamId);
      else this.#waiting.set(streamId, others);
      for (const { below, resolve } of waiting) if (queued < below) resolve();
    }
    if (this.#waiting.size === 0) this.#waiting = undefined;
  }
}
