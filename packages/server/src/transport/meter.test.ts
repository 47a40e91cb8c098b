import { describe, expect, it } from 'vitest';
import { Meter, OVERHEAD_BURST } from './meter.js';

const LIMITS = { bytesPerSecond: 10_000_000, controlMessagesPerMinute: 5 };
const READ_AHEAD = 256 * 1024;
const HEAD = 14;

const connected = () => ({ traffic: { sent: 0, received: 0 }, overhead: HEAD });

/** 64 messages of `size` bytes; the last one triggers a comparison. */
function hand(
  meter: Meter,
  { traffic }: ReturnType<typeof connected>,
  size: number,
  beside: number,
  now = 0,
) {
  traffic.received += 64 * (size + HEAD) + beside;
  for (let i = 1; i < 64; i++) expect(meter.handleMessage(size, () => now)).toBeUndefined();
  return meter.handleMessage(size, () => now)?.code;
}

describe('overhead on a connection', () => {
  it('may be n bytes at once and not one more, then as many as the rate allows', () => {
    for (const [extra, code] of [
      [0, undefined],
      [1, 'rate_limited'],
    ] as const) {
      const transport = connected();
      const meter = new Meter(transport, LIMITS);
      expect(hand(meter, transport, 2, READ_AHEAD + OVERHEAD_BURST + extra)).toBe(code);
    }
    const transport = connected();
    const meter = new Meter(transport, LIMITS);
    expect(hand(meter, transport, 2, READ_AHEAD + OVERHEAD_BURST)).toBeUndefined();
    expect(hand(meter, transport, 2, 256_000, 1_000)).toBeUndefined();
    expect(hand(meter, transport, 2, 256, 1_000)).toBe('rate_limited');
  });

  it('is 0 for any number of plain messages, and short headers leave no balance', () => {
    const transport = connected();
    const meter = new Meter(transport, LIMITS);
    for (let i = 0; i < 1_000; i++) {
      // Headers of 6 bytes instead of 14.
      transport.traffic.received -= 64 * 8;
      expect(hand(meter, transport, 1, 0)).toBeUndefined();
    }
    expect(hand(meter, transport, 1, READ_AHEAD + OVERHEAD_BURST + 1)).toBe('rate_limited');
  });

  it('includes pings and pongs, in bursts of twice the rate of control messages', () => {
    const meter = new Meter(connected(), LIMITS);
    for (let i = 0; i < 10; i++) expect(meter.handleControl(0)).toBeUndefined();
    expect(meter.handleControl(0)?.code).toBe('rate_limited');
    expect(meter.handleControl(12_000)).toBeUndefined();
  });

  it('is not limited if the limits are off', () => {
    const transport = connected();
    const off = { bytesPerSecond: Infinity, controlMessagesPerMinute: Infinity };
    const meter = new Meter(transport, off);
    expect(hand(meter, transport, 1, 1e9)).toBeUndefined();
    for (let i = 0; i < 10_000; i++) expect(meter.handleControl(0)).toBeUndefined();
  });
});
