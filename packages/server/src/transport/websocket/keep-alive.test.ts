import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { keepAlive } from './keep-alive.js';
import type { WebSocketTransport } from './ws.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function open() {
  const traffic = { sent: 0, received: 0 };
  const counts = { pings: 0, held: 0, terminated: 0 };
  const wire = {
    traffic,
    ping: () => void counts.pings++,
    hold: () => void counts.held++,
    unhold: () => void counts.held--,
    terminate: () => void counts.terminated++,
  } as unknown as WebSocketTransport;
  const end = keepAlive(wire, 1_000);
  return { wire, traffic, counts, end };
}

it('pings in each interval, and cuts a client that answers none of three', () => {
  const { traffic, counts, end } = open();
  for (let i = 0; i < 10; i++) {
    vi.advanceTimersByTime(1_000);
    traffic.received += 2;
  }
  expect(counts).toMatchObject({ pings: 10, terminated: 0 });
  // The tenth is answered.
  vi.advanceTimersByTime(3_999);
  expect(counts).toMatchObject({ pings: 13, terminated: 0 });
  vi.advanceTimersByTime(1);
  expect(counts).toMatchObject({ pings: 13, terminated: 1 });
  end();
  expect(vi.getTimerCount()).toBe(0);
});

it('waits for a client that is not read, and counts from zero when it is', () => {
  const { wire, counts } = open();
  wire.hold();
  vi.advanceTimersByTime(60_000);
  expect(counts).toEqual({ pings: 60, held: 1, terminated: 0 });
  wire.unhold();
  vi.advanceTimersByTime(2_000);
  expect(counts).toMatchObject({ held: 0, terminated: 0 });
  vi.advanceTimersByTime(1_000);
  expect(counts.terminated).toBe(1);
});
