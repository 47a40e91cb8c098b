import { expect, it } from 'vitest';
import { createBackoff } from './backoff.js';

it.each([
  [{}, false, 0],
  [{}, true, 60_000],
  [{ connectWithinMs: 5 }, true, 5],
  [true, true, 60_000],
] as const)('first attempts with %j, waitForServer: %s, are made for %i ms', (given, waits, within) => {
  expect(createBackoff(given, () => 0.5, waits).connectWithinMs).toBe(within);
});
