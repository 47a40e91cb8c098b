import { systemClock } from '../../platform/clock.js';
import type { Part } from '../messages/part.js';

/**
 * The parts of a reply, the first of which carries its status. That does not wait for a body that takes long to begin, or that fails.
 */
export async function* withHead<Each extends Part>(
  parts: AsyncGenerator<Each, void, undefined>,
): AsyncGenerator<Each | '', void, undefined> {
  let next = parts.next();
  next.catch(() => {});
  try {
    if (await isPending(next)) yield '';
    else {
      const isBegun = await next.then(
        // A part that only says that the source lives cannot be told from the one that only carries the status.
        ({ value }) => value !== '',
        () => false,
      );
      if (!isBegun) yield '';
    }
    for (let part = await next; part.done !== true; part = await next) {
      yield part.value;
      next = parts.next();
    }
  } finally {
    // Not awaited: it waits for a part that was asked for.
    parts.return().catch(() => {});
  }
}

/** Whether a promise is not settled when other work has had the event loop. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let pending = true;
  const settle = () => {
    pending = false;
  };
  await Promise.race([promise.then(settle, settle), systemClock.yield()]);
  return pending;
}
