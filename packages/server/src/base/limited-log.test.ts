import type { Logger } from '@parlance/protocol';
import { expect, it } from 'vitest';
import { limitedBySession, limitedLog, MAX_LINES } from './limited-log.js';

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

it('each session causes so many lines of an event, and lines without a session have no bound', () => {
  const lines: { session?: string; omitted?: number }[] = [];
  const add = (fields: object) => void lines.push(fields);
  let now = 0;
  const log = limitedBySession({ debug: add, info: add, warn: add, error: add }, () => now);
  for (const session of ['s1', 's2'])
    for (let i = 0; i < MAX_LINES + 5; i++) log.warn({ event: 'request.failed', session }, 'failed');
  expect(lines.map(({ session }) => session)).toEqual([
    ...Array(MAX_LINES).fill('s1'),
    ...Array(MAX_LINES).fill('s2'),
  ]);
  for (let i = 0; i < 2 * MAX_LINES; i++) log.warn({ event: 'engine.silent' }, 'silent');
  expect(lines).toHaveLength(4 * MAX_LINES);
  now += 60_000 / MAX_LINES;
  log.warn({ event: 'request.failed', session: 's2' }, 'failed');
  expect(lines.at(-1)).toEqual({ event: 'request.failed', session: 's2', omitted: 5 });
});

it('the caller gets what a function of the logger returns', () => {
  const returned = (level: string) => () => level as unknown as undefined;
  const [debug, info, warn, error] = ['debug', 'info', 'warn', 'error'].map(returned) as [
    never,
    never,
    never,
    never,
  ];
  const log = limitedLog({ debug, info, warn, error });
  const fields = { event: 'a' };
  expect([log.debug, log.info, log.warn, log.error].map((write) => write(fields, 'of a'))).toEqual([
    ...['debug', 'info', 'warn', 'error'],
  ]);
});
