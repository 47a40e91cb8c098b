import { expect, it } from 'vitest';
import { LoopShares, TICK_MS } from '../base/loop-shares.js';
import { inTurns } from './in-turns.js';
import type { Transport, TransportEvents } from './transport.js';

/** A wire of which the test says what comes, and a loop whose turns it makes. */
function connected() {
  let time = 0;
  let holds = 0;
  let events: TransportEvents | undefined;
  const tasks: (() => void)[] = [];
  const loop = new LoopShares({
    share: 1,
    now: () => time,
    soon: (task) => void tasks.push(task),
    after: (_ms, task) => void tasks.push(task),
  });
  const wire: Partial<Transport> = {
    listen: (listener) => {
      events = listener;
    },
    hold: () => void holds++,
    unhold: () => void holds--,
  };
  const heard: unknown[] = [];
  inTurns(wire as Transport, loop, () => time).listen({
    onMessage(data) {
      heard.push(data);
      time += 1;
    },
    onClose: (code) => void heard.push(code),
    onFault() {},
    onControl() {},
    onData() {},
    onDrain() {},
  });
  const turn = () => {
    for (const task of tasks.splice(0)) task();
  };
  const say = (text: string) => events?.onMessage(text, text.length);
  return { heard, say, turn, close: () => events?.onClose(1006, ''), holds: () => holds, loop };
}

it('messages of another node wait for the next turn when they have had their time, and are heard in order', () => {
  const { heard, say, turn, holds } = connected();
  const all = Array.from({ length: 3 * TICK_MS }, (_, i) => String(i));
  for (const text of all) say(text);
  expect(heard.length).toBeGreaterThanOrEqual(TICK_MS);
  expect(heard.length).toBeLessThanOrEqual(TICK_MS + 2);
  expect(holds()).toBe(1);
  for (let i = 0; i < 10; i++) turn();
  expect(heard).toEqual(all);
  expect(holds()).toBe(0);
});

it('the end of the connection comes after what was said before', () => {
  const { heard, say, turn, close, loop } = connected();
  const all = Array.from({ length: 2 * TICK_MS }, (_, i) => String(i));
  for (const text of all) say(text);
  close();
  expect(heard.length).toBeLessThan(all.length);
  for (let i = 0; i < 10; i++) turn();
  expect(heard).toEqual([...all, 1006]);
  expect(loop.size).toBe(0);
});

it('the end of a connection on which nothing waits comes at once', () => {
  const { heard, say, close } = connected();
  say('a');
  close();
  expect(heard).toEqual(['a', 1006]);
});
