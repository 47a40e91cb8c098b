import { CloseCode, DEFAULT_LIMITS } from '@parlance/protocol';
import { MemoryBudget } from '@parlance/protocol/internal';
import { expect, it, vi } from 'vitest';
import type { Transport, TransportEvents } from '../transport.js';
import { FREE_UNFINISHED } from '../unfinished-message.js';
import { bounded } from './bounded.js';

const MIB = 1024 * 1024;

/** A WebSocket without a network. */
class FakeSocket implements Transport {
  readonly traffic = { sent: 0, received: 0 };
  readonly overhead = 14;
  readonly bufferedAmount = 0;
  events: TransportEvents | undefined;
  held = 0;
  closed: number | undefined;
  send(): void {}
  close(code: number): void {
    this.closed ??= code;
  }
  terminate(): void {}
  listen(events: TransportEvents): void {
    this.events = events;
  }
  hold(): void {
    this.held++;
  }
  unhold(): void {
    this.held--;
  }
}

function open(limits: Partial<typeof DEFAULT_LIMITS> = {}, processMemory = 64 * MIB) {
  const socket = new FakeSocket();
  const budget = new MemoryBudget(processMemory);
  const got: unknown[] = [];
  const nothing = (): void => {};
  bounded(socket, { ...DEFAULT_LIMITS, ...limits }, budget).listen({
    onMessage: (data) => got.push(data),
    ...{ onControl: () => got.push('control'), onData: nothing, onDrain: nothing, onFault: nothing },
    onClose: (code) => got.push(code),
  });
  return { socket, budget, got, events: socket.events as TransportEvents };
}

it('charges a message that is still arriving from its first byte beyond a bound, until it is whole', () => {
  const { budget, events, got } = open();
  events.onData(FREE_UNFINISHED);
  expect(budget.used).toBe(0);
  events.onData(1);
  expect(budget.used).toBe(MIB);
  events.onMessage('whole', FREE_UNFINISHED + 1);
  expect([budget.used, got]).toEqual([0, ['whole']]);
});

it('is not read while there is no memory for more, and gives all back when it closes', () => {
  const { socket, budget, events, got } = open({ sessionMemory: 2 * MIB });
  events.onData(FREE_UNFINISHED + 2 * MIB);
  events.onData(1);
  expect([socket.held, budget.used]).toEqual([0, 2 * MIB]);
  events.onData(MIB);
  expect([socket.held, budget.used]).toEqual([1, 2 * MIB]);
  events.onClose(1006, '');
  expect([socket.held, budget.used, got]).toEqual([0, 0, [1006]]);
});

it('closes at one ping too many, of which its listener does not hear', () => {
  const { socket, events, got } = open({ controlMessagesPerMinute: 10 });
  for (let i = 0; i < 20; i++) events.onControl();
  expect([socket.closed, got.length]).toEqual([undefined, 20]);
  events.onControl();
  expect([socket.closed, got.length]).toEqual([CloseCode.RATE_LIMITED, 20]);
});

it.each([
  ['messages', { messagesPerMinute: 60 }, 120, 1],
  ['bytes', { bytesPerSecond: 100 }, 2, 100],
] as const)(
  'is not read beyond twice the rate of %s, until the rate is kept again',
  (_name, limits, most, size) => {
    vi.useFakeTimers();
    try {
      const { socket, events, got } = open(limits);
      const message = () => {
        events.onMessage('x', size);
        events.onData(size);
      };
      for (let i = 0; i < most; i++) message();
      expect(socket.held).toBe(0);
      message();
      expect([socket.held, socket.closed, got.length]).toEqual([1, undefined, most + 1]);
      // A message that was read already is handled, and the pause does not begin twice.
      message();
      expect([socket.held, got.length]).toEqual([1, most + 2]);
      vi.advanceTimersByTime(999);
      expect(socket.held).toBe(1);
      vi.advanceTimersByTime(1_001);
      expect(socket.held).toBe(0);
      message();
      message();
      expect(socket.held).toBe(1);
      events.onClose(1006, '');
      vi.advanceTimersByTime(10_000);
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  },
);
