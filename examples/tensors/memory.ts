export interface PeakMemory {
  /** Peak growth of the process in bytes since watching began. */
  peak(): number;
}

export function watchMemory(): PeakMemory {
  const base = process.memoryUsage.rss();
  let most = base;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss());
  }, 20);
  timer.unref();
  return { peak: () => Math.max(most, process.memoryUsage.rss()) - base };
}
