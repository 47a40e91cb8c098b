import { attempt, type Clock } from '@parlance/protocol/client';

/**
 * How a tab and its host notice that the other one is gone, even if it crashed: each holds a Web Lock of its own, which
 * the browser frees with the page or worker. Pages without TLS have no locks; there, both ends give signs of life.
 */

/** The part of `navigator.locks` that is used. */
export type Locks = Pick<LockManager, 'request'>;

/** Holds a lock until the returned function is called. Resolves when it is held. */
export function holdLock(locks: Locks, name: string): Promise<() => void> {
  return new Promise((resolve, reject) => {
    locks
      .request(name, () => new Promise<void>((release) => resolve(() => release())))
      .catch((error: unknown) => reject(error));
  });
}

/**
 * Calls `onFree` when the holder of the lock is gone. Returns a function that stops waiting.
 *
 * @param onFree the lock is held until what it returns has settled.
 */
export function awaitLock(locks: Locks, name: string, onFree: () => Promise<void> | void): () => void {
  const waiting = new AbortController();
  // It rejects if the wait is aborted, or with the page.
  locks.request(name, { signal: waiting.signal }, () => onFree()).catch(() => {});
  return () => waiting.abort();
}

/** Watches the other end of a pipe. */
export interface Watch {
  /** It gave a sign of life. */
  readonly heard: () => void;
  readonly stop: () => void;
}

/**
 * Calls `onGone` when the other end of a pipe is gone.
 *
 * @param lock the one that the other end holds.
 * @param beat gives a sign of life, if there are no locks.
 */
export function watchPeer(
  { locks, clock }: { readonly locks: Locks | undefined; readonly clock: Pick<Clock, 'after' | 'now'> },
  lock: string | undefined,
  beat: () => void,
  onGone: () => void,
): Watch {
  if (locks === undefined || lock === undefined) return keepBeat(clock, beat, onGone);
  return { heard: () => {}, stop: awaitLock(locks, lock, onGone) };
}

/** Milliseconds between two signs of life. */
export const BEAT_MS = 20_000;
/** Milliseconds of silence after which the other end is gone. Hidden pages run timers once a minute. */
export const SILENCE_MS = 200_000;

/** Gives signs of life, and expects those of the other end. */
function keepBeat(clock: Pick<Clock, 'after' | 'now'>, beat: () => void, onSilence: () => void): Watch {
  let last = clock.now();
  let wasSilent = false;
  let cancel = (): void => {};
  const tick = (): void => {
    // A device that slept has heard nothing either: the other end gets one more interval to speak.
    const isSilent = clock.now() - last > SILENCE_MS;
    if (isSilent && wasSilent) return onSilence();
    wasSilent = isSilent;
    attempt(beat);
    cancel = clock.after(BEAT_MS, tick);
  };
  cancel = clock.after(BEAT_MS, tick);
  return {
    heard() {
      last = clock.now();
    },
    stop: () => cancel(),
  };
}
