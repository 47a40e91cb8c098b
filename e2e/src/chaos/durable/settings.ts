/** Questions with such an ID are answered by a handler that continues after the death of another one. */
export const repeatable = (id: string): string => `${id}-again`;
export const isRepeatable = (id: string): boolean => id.endsWith('-again');

/** On a slow machine, all nodes may be paused or about to start for a while. */
export const RESUME_WINDOW_MS = 180_000;
