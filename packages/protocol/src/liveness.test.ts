import { describe, expect, it } from 'vitest';
import { resolveTimers } from './limits.js';
import { createLiveness } from './liveness.js';

const PING_AFTER = 1_000;
const PONG_WITHIN = 100;
const timers = resolveTimers({ pingIntervalMs: PING_AFTER, pongTimeoutMs: PONG_WITHIN }, true);

/** Liveness of a connection that was made at 0. */
const connected = () => {
  const liveness = createLiveness(timers);
  liveness.handleReceived(0);
  return liveness;
};

describe('liveness', () => {
  it('asks for a PING after silence, at the time it said and not before', () => {
    const liveness = connected();
    liveness.handleReceived(500);
    expect(liveness.nextCheck()).toBe(1_500);
    expect(liveness.check(1_499)).toBe('alive');
    expect(liveness.check(1_500)).toBe('ping');
    expect(liveness.nextCheck()).toBe(1_600);
    expect(liveness.check(1_599)).toBe('alive');
  });

  it('gives the connection up at the third missed PONG in a row', () => {
    const liveness = connected();
    const said = [];
    for (let i = 0; i < 4; i++) said.push(liveness.check(liveness.nextCheck()));
    expect(said).toEqual(['ping', 'ping', 'ping', 'lost']);
  });

  it('counts only what is missed in a row', () => {
    const liveness = connected();
    for (let round = 0; round < 3; round++) {
      for (const expected of ['ping', 'ping', 'ping'])
        expect(liveness.check(liveness.nextCheck())).toBe(expected);
      const answeredAt = liveness.nextCheck() - 1;
      liveness.handleReceived(answeredAt);
      liveness.handlePong(answeredAt);
      expect(liveness.nextCheck()).toBe(answeredAt + PING_AFTER);
    }
  });

  it('takes anything received for a sign of life, though it is no PONG', () => {
    const liveness = connected();
    liveness.check(1_000);
    liveness.handleReceived(1_050);
    expect(liveness.check(1_100)).toBe('alive');
    expect(liveness.roundTripMs).toBeUndefined();
    expect(liveness.nextCheck()).toBe(2_050);
    expect(liveness.check(2_050)).toBe('ping');
  });

  it('measures the round trip from the last PING to its PONG', () => {
    const liveness = connected();
    expect(liveness.roundTripMs).toBeUndefined();
    liveness.check(1_000);
    liveness.check(1_100);
    liveness.handleReceived(1_130);
    liveness.handlePong(1_130);
    expect(liveness.roundTripMs).toBe(30);
  });

  it('does not believe a PONG that it never asked for', () => {
    const liveness = connected();
    liveness.handlePong(700);
    expect(liveness.roundTripMs).toBeUndefined();
    liveness.check(1_000);
    liveness.handlePong(1_040);
    liveness.handlePong(1_090);
    expect(liveness.roundTripMs).toBe(40);
  });

  it('never asks where the interval is Infinity', () => {
    const liveness = createLiveness(resolveTimers({ pingIntervalMs: Infinity }));
    liveness.handleReceived(5);
    expect([liveness.check(1e12), liveness.nextCheck()]).toEqual(['alive', Infinity]);
  });
});
