import type { Logger } from '@parlance/protocol';
import { expect, it } from 'vitest';
import { limitedLog, MAX_LINES } from './limited-log.js';

it('other nodes cause so many lines of an event, and what is left out is counted', () => {
  const lines: unknown[] = [];
  const add = (fields: object) => void lines.push(fields);
  let now = 0;
  const log: Logger = limitedLog({ debug: add, info: add, warn: add, error: add }, () => now);
  for (let i = 0; i < MAX_LINES + 5; i++) log.warn({ event: 'a' }, 'of a');
  expect(lines).toHaveLength(MAX_LINES);
  // Another event has room of its own, and other levels have no bound.
  log.error({ event: 'b' }, 'of b');
  for (let i = 0; i < 2 * MAX_LINES; i++) log.info({ event: 'a' }, 'of a');
  expect(lines).toHaveLength(3 * MAX_LINES + 1);
  now += 60_000 / MAX_LINES;
  log.warn({ event: 'a' }, 'of a');
  log.warn({ event: 'a' }, 'of a');
  expect(lines).toHaveLength(3 * MAX_LINES + 2);
  expect(lines.at(-1)).toEqual({ event: 'a', omitted: 5 });
  now += 1_000_000;
  for (let i = 0; i < MAX_LINES + 5; i++) log.warn({ event: 'a' }, 'of a');
  expect(lines).toHaveLength(4 * MAX_LINES + 2);
});
