/** Memory use of the process after garbage collection; needs `--expose-gc`. */
export async function settledMemory(): Promise<NodeJS.MemoryUsage> {
  // Some of what one collection releases is only freed by the next one.
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage();
}
