/** Tasks over it are long: a page that works for longer misses a frame or a click. */
export const LONG_TASK_MS = 50;

/** Runs before the page's own scripts, and fills `window.longTasks`. */
export const WATCH_LONG_TASKS = `
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) longTasks.push({ start: startTime, ms: duration });
  }).observe({ type: 'longtask', buffered: true });
`;
