/** How much more memory this process holds at its peak than when it began to be watched. */
export function watchMemory(): { peak(): number } {
  const base = process.memoryUsage.rss();
  let most = base;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss());
  }, 20);
  timer.unref();
  return { peak: () => Math.max(most, process.memoryUsage.rss()) - base };
}
