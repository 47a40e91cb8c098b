import { expect, it } from 'vitest';
import { createLoopback } from './loopback.js';
import type { Transport } from './transport.js';

type Event = readonly unknown[];

function listenTo(transport: Transport): Event[] {
  const events: Event[] = [];
  transport.listen({
    onMessage: (data) => events.push(['message', String(data)]),
    onClose: (code, reason) => events.push(['close', code, reason]),
    onDrain: () => events.push(['drain']),
    onControl() {},
    onData() {},
    onFault() {},
  });
  return events;
}

/** Two ends with what they have reported, and a tick of the event loop. */
function setUp() {
  const [one, other] = createLoopback();
  return { one, other, ofOne: listenTo(one), ofOther: listenTo(other) };
}
const turn = () => new Promise(setImmediate);

it('carries copies of what is sent, in order, in a later turn', async () => {
  const { one, ofOne, ofOther } = setUp();
  const memory = Buffer.from('a');
  one.send(memory);
  one.send('b');
  memory.fill('x');
  expect(ofOther).toEqual([]);
  expect(one.bufferedAmount).toBe(2);
  await turn();
  expect(ofOther).toEqual([
    ['message', '97'],
    ['message', 'b'],
  ]);
  expect(ofOne).toEqual([['drain']]);
  expect([one.bufferedAmount, one.traffic.sent]).toEqual([0, 2]);
});

it('keeps at its sender what is not read', async () => {
  const { one, other, ofOther } = setUp();
  other.hold();
  other.pause?.();
  one.send('a');
  await turn();
  other.unhold();
  await turn();
  expect([ofOther.length, one.bufferedAmount, other.traffic.received]).toEqual([0, 1, 0]);
  other.resume?.();
  await turn();
  expect([ofOther.length, one.bufferedAmount, other.traffic.received]).toEqual([1, 0, 1]);
});

it('delivers what was sent before a close, then the close of the other end, once', async () => {
  const { one, other, ofOne, ofOther } = setUp();
  one.send('last');
  one.close(4000, 'done');
  one.send('too late');
  other.close(4001, 'also');
  await turn();
  await turn();
  expect(ofOther).toEqual([
    ['message', 'last'],
    ['close', 4000, 'done'],
  ]);
  expect(ofOne).toEqual([['close', 4001, 'also']]);
});

it('ends at once if it is terminated, also if the other end does not read', async () => {
  const { one, other, ofOne, ofOther } = setUp();
  other.pause?.();
  one.send('lost');
  one.terminate();
  await turn();
  expect([ofOne, ofOther]).toEqual([[['close', 1006, '']], [['close', 1006, '']]]);
});
