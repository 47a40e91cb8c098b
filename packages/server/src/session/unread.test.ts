import { expect, it } from 'vitest';
import { UNREAD_MS, UnreadWatch } from './unread.js';

function setUp() {
  const told: unknown[] = [];
  const nothing = () => {};
  const warn = (fields: object) => void told.push(fields);
  const logger = { debug: nothing, info: nothing, warn, error: nothing };
  const watch = new UnreadWatch({ id: 's1', logger, notify: (name, event) => void told.push([name, event]) });
  const stalled = (granted: number) => ({ granted, messages: 3, bytes: 70 });
  return { watch, told, stalled };
}

it('tells once, with how much waits, that a client has granted nothing for some time', () => {
  const { watch, told, stalled } = setUp();
  watch.handleTick(stalled(5), 100);
  watch.handleTick(stalled(5), 99 + UNREAD_MS);
  expect(told).toEqual([]);
  watch.handleTick(stalled(5), 100 + UNREAD_MS);
  const event = { messages: 3, bytes: 70 };
  expect(told).toEqual([{ event: 'session.unread', session: 's1', ...event }, ['unread', event]]);
  watch.handleTick(undefined, 200_000);
  watch.handleTick(stalled(9), 300_000);
  watch.handleTick(stalled(9), 400_000);
  expect(told.length).toBe(2);
});

it('is silent about a client that reads slowly, and about one that was away', () => {
  const { watch, told, stalled } = setUp();
  for (let i = 0; i < 100; i++) watch.handleTick(stalled(i), i * (UNREAD_MS - 1));
  for (let i = 100; i < 200; i++) watch.handleTick(i % 2 ? stalled(1) : undefined, i * (UNREAD_MS - 1));
  expect(told).toEqual([]);
});
