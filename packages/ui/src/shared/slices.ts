/** Time that a slice of work may take, in milliseconds. */
const SLICE_MS = 12;

/** A browser calls itself idle for up to 50 ms, in which a key would have to wait. */
const IDLE_MS = 8;

/** Lets the page do other things after each slice of time. */
export function createTurn(): () => Promise<void> | undefined {
  let begun = performance.now();
  return () => {
    if (performance.now() - begun < SLICE_MS) return undefined;
    return new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        begun = performance.now();
        port1.close();
        resolve();
      };
      port2.postMessage(undefined);
    });
  };
}

/** Not every browser says when it is idle. @param work gets the milliseconds that are left; one piece may be done in any case. */
export function whenIdle(work: (remaining: () => number) => void): void {
  const run = (deadline?: IdleDeadline) => {
    const until = performance.now() + IDLE_MS;
    work(() => Math.min(until - performance.now(), deadline?.timeRemaining() ?? IDLE_MS));
  };
  if ('requestIdleCallback' in globalThis) requestIdleCallback(run);
  else setTimeout(run, IDLE_MS / 2);
}
