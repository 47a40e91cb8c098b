import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS } from '../base/limits.js';
import { errorCode } from '../testing/error-code.js';
import { encodeSignalFrame, LinkKind } from './frame.js';
import { MIN_FRAME_CHARGE, Pacer, RateLimiter } from './rates.js';

const bytes = (length: number) => new Uint8Array(length);
/** The delay that a request is refused with; 0 if it is accepted. */
const ask = (gate: RateLimiter, now: number) => gate.handleRequest(now)?.retryAfterMs ?? 0;

const ack = encodeSignalFrame(LinkKind.ACK, 1);

const limits = {
  messagesPerMinute: 60,
  bytesPerSecond: Infinity,
  controlMessagesPerMinute: Infinity,
  sessionWindow: 1000,
};

describe('the pace of a sender', () => {
  it('is a burst of a minute of messages, then the rate', () => {
    const pace = new Pacer({ messagesPerMinute: 60 });
    for (let i = 0; i < 60; i++) {
      expect(pace.mayBegin(0)).toBe(true);
      pace.begin(0);
    }
    expect([pace.mayBegin(0), pace.mayWrite(0), pace.readyAt(0)]).toEqual([false, true, 1_000]);
    expect([pace.mayBegin(999), pace.mayBegin(1_000)]).toEqual([false, true]);
  });

  it('is a burst of a second of bytes and a frame, then the rate', () => {
    const pace = new Pacer({ bytesPerSecond: 1_000 });
    pace.write(1_000, 0);
    expect(pace.mayWrite(0)).toBe(true);
    pace.write(500, 0);
    expect([pace.mayWrite(0), pace.mayBegin(0), pace.readyAt(0)]).toEqual([false, true, 500]);
    expect([pace.mayWrite(499), pace.mayWrite(500)]).toEqual([false, true]);
  });

  it('is unlimited if no rate was advertised, or 0', () => {
    for (const rates of [{}, { messagesPerMinute: Infinity }, { messagesPerMinute: 0, bytesPerSecond: 0 }]) {
      const pace = new Pacer(rates);
      for (let i = 0; i < 10_000; i++) {
        pace.begin(0);
        pace.write(1e9, 0);
      }
      expect([pace.mayBegin(0), pace.mayWrite(0), pace.readyAt(0)]).toEqual([true, true, 0]);
    }
  });
});

describe('the gate of a receiver', () => {
  it('accepts twice the burst, refuses the next request with a delay, and ends the session after a third burst', () => {
    const gate = new RateLimiter(limits);
    for (let i = 0; i < 120; i++) expect(ask(gate, 0)).toBe(0);
    // One second pays off the debt, another one allows the next request.
    expect(ask(gate, 0)).toBe(2_000);
    for (let i = 1; i < 60; i++) expect(ask(gate, 0)).toBeGreaterThan(2_000);
    expect(errorCode(() => gate.handleRequest(0))).toBe('rate_limited');
  });

  it('accepts a request again after the stated delay', () => {
    const gate = new RateLimiter(limits);
    for (let i = 0; i < 120; i++) gate.handleRequest(0);
    const delay = ask(gate, 0);
    expect(ask(gate, delay)).toBe(0);
    expect(ask(gate, delay)).toBeGreaterThan(0);
  });

  it('never affects a sender that keeps its pace', () => {
    const pace = new Pacer(limits);
    const gate = new RateLimiter(limits);
    for (let now = 0; now < 600_000; now += 250) {
      for (; pace.mayBegin(now); pace.begin(now)) {
        // Delivered all at once, with a delay of up to a minute.
        expect(ask(gate, Math.ceil(now / 60_000) * 60_000)).toBe(0);
      }
    }
  });

  it('closes for one-way messages beyond the rate, until the rate is kept again', () => {
    const gate = new RateLimiter(limits);
    for (let i = 0; i < 120; i++) gate.handleMessage(0);
    expect([gate.isClosed, gate.opensAt]).toEqual([false, Infinity]);
    gate.handleMessage(0);
    expect([gate.isClosed, gate.opensAt]).toEqual([true, 2_000]);
    expect([gate.handleTimeout(1_999), gate.isClosed]).toEqual([false, true]);
    expect([gate.handleTimeout(2_000), gate.isClosed, gate.opensAt]).toEqual([true, false, Infinity]);
    expect(gate.handleTimeout(2_000)).toBe(false);
  });

  it('closes for bytes beyond the rate, and ends the session if credit does not explain them', () => {
    const gate = new RateLimiter({ ...limits, bytesPerSecond: 1_000 });
    gate.handleData(bytes(2_000), 0);
    expect(gate.isClosed).toBe(false);
    gate.handleData(bytes(64), 0);
    expect([gate.isClosed, gate.opensAt]).toEqual([true, 64]);
    // The allowed debt: a second, the window, and the bytes that complete a message.
    const allowed = 1_000 + 1_000 + 2 * 1024 * 1024;
    gate.handleData(bytes(allowed - 64), 0);
    expect(errorCode(() => gate.handleData(bytes(1), 0))).toBe('rate_limited');
  });

  it('counts a small frame as one of 64 bytes, as its sender does', () => {
    const pace = new Pacer({ bytesPerSecond: 640 });
    const gate = new RateLimiter({ ...limits, bytesPerSecond: 640 });
    for (let i = 0; i < 10; i++) {
      expect(pace.mayWrite(0)).toBe(true);
      pace.write(i % 2 === 0 ? 1 : MIN_FRAME_CHARGE, 0);
    }
    pace.write(1, 0);
    expect(pace.mayWrite(0)).toBe(false);
    for (let i = 0; i < 20; i++) gate.handleData(bytes(1), 0);
    expect(gate.isClosed).toBe(false);
    gate.handleData(bytes(1), 0);
    expect(gate.isClosed).toBe(true);
  });

  it('counts signals by themselves, twice a second of them and not one more, then the rate', () => {
    const gate = new RateLimiter({ ...limits, bytesPerSecond: 640 });
    for (const kind of [LinkKind.CANCEL, LinkKind.ALIAS, LinkKind.CREDIT])
      gate.handleData(encodeSignalFrame(kind, 1), 0);
    for (let i = 0; i < 79_997; i++) gate.handleData(ack, 0);
    expect(gate.isClosed).toBe(false);
    expect(errorCode(() => gate.handleData(ack, 0))).toBe('rate_limited');
    for (let i = 0; i < 40; i++) gate.handleData(ack, 1);
    expect(errorCode(() => gate.handleData(ack, 1))).toBe('rate_limited');
    // Neither are they bytes, nor are frames with bodies signals.
    for (let i = 0; i < 20; i++) gate.handleData(encodeSignalFrame(LinkKind.ERROR, 1), 0);
    expect(gate.isClosed).toBe(false);
    gate.handleData('x', 0);
    expect(gate.isClosed).toBe(true);
  });

  it('accepts twice the burst of control messages and not one more, then the rate', () => {
    const gate = new RateLimiter({ ...limits, controlMessagesPerMinute: 60 });
    for (let i = 0; i < 120; i++) gate.handleControl(0);
    expect(errorCode(() => gate.handleControl(0))).toBe('rate_limited');
    expect(errorCode(() => gate.handleControl(999))).toBe('rate_limited');
    gate.handleControl(1_000);
    expect(errorCode(() => gate.handleControl(1_000))).toBe('rate_limited');
  });

  it('forgets a rate at rest only once it is full again', () => {
    const gate = new RateLimiter({ ...limits, controlMessagesPerMinute: 60 });
    for (let i = 0; i < 120; i++) gate.handleControl(0);
    gate.rest(1_000);
    gate.handleControl(1_000);
    expect(errorCode(() => gate.handleControl(1_000))).toBe('rate_limited');
    gate.rest(200_000);
    expect(gate.snapshot(200_000).controls).toBeUndefined();
    for (let i = 0; i < 120; i++) gate.handleControl(200_000);
    expect(errorCode(() => gate.handleControl(200_000))).toBe('rate_limited');
  });

  it('enforces no rate that is off', () => {
    const off = { messagesPerMinute: Infinity, bytesPerSecond: Infinity, controlMessagesPerMinute: Infinity };
    const gate = new RateLimiter({ ...DEFAULT_LIMITS, ...off });
    const data = bytes(10_000_000);
    for (let i = 0; i < 100_000; i++) {
      gate.handleMessage(0);
      gate.handleControl(0);
      gate.handleData(data, 0);
      gate.handleData(ack, 0);
    }
    expect(ask(gate, 0)).toBe(0);
    expect(gate.isClosed).toBe(false);
  });
});
