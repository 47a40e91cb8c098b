/** Time that a slice of work may take, in milliseconds. */
const SLICE_MS = 12;

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
