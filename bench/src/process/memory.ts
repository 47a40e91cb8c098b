/** Bytes that a process uses once all garbage is gone; it needs `--expose-gc`. */
export async function settledMemory(): Promise<NodeJS.MemoryUsage> {
  // What a collection releases may only be collected by the next one.
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage();
}
