import { describe, expect, it } from 'vitest';
import { resolveTimers } from '../base/limits.js';
import { Liveness } from './timers.js';

const PING_AFTER = 1_000;
const PONG_WITHIN = 100;
const timers = resolveTimers({ pingIntervalMs: PING_AFTER, pongTimeoutMs: PONG_WITHIN }, true);

/** Liveness of a connection that opened at 0. */
const connected = () => {
  const liveness = new Liveness(timers);
  liveness.handleReceived(0);
  return liveness;
};

describe('liveness', () => {
  it('asks for a PING after silence, at the announced time and not earlier', () => {
    const liveness = connected();
    liveness.handleReceived(500);
    expect(liveness.nextPoll(false)).toBe(1_500);
    expect(liveness.poll(1_499, false)).toBeUndefined();
    expect(liveness.poll(1_500, false)).toBe('ping');
    expect(liveness.nextPoll(false)).toBe(1_600);
    expect(liveness.poll(1_599, false)).toBeUndefined();
  });

  it('gives the connection up at the third missed PONG in a row', () => {
    const liveness = connected();
    const said = [];
    for (let i = 0; i < 4; i++) said.push(liveness.poll(liveness.nextPoll(false), false));
    expect(said).toEqual(['ping', 'ping', 'ping', 'lost']);
  });

  it('counts only PONGs that are missed in a row', () => {
    const liveness = connected();
    for (let round = 0; round < 3; round++) {
      for (const expected of ['ping', 'ping', 'ping'])
        expect(liveness.poll(liveness.nextPoll(false), false)).toBe(expected);
      const answeredAt = liveness.nextPoll(false) - 1;
      liveness.handleReceived(answeredAt);
      liveness.handlePong(answeredAt);
      expect(liveness.nextPoll(false)).toBe(answeredAt + PING_AFTER);
    }
  });

  it('treats any received frame as a sign of life, even if it is not a PONG', () => {
    const liveness = connected();
    liveness.poll(1_000, false);
    liveness.handleReceived(1_050);
    expect(liveness.poll(1_100, false)).toBeUndefined();
    expect(liveness.roundTripMs).toBeUndefined();
    expect(liveness.nextPoll(false)).toBe(2_050);
    expect(liveness.poll(2_050, false)).toBe('ping');
  });

  it('measures the round trip from the last PING to its PONG', () => {
    const liveness = connected();
    expect(liveness.roundTripMs).toBeUndefined();
    liveness.poll(1_000, false);
    liveness.poll(1_100, false);
    liveness.handleReceived(1_130);
    liveness.handlePong(1_130);
    expect(liveness.roundTripMs).toBe(30);
  });

  it('ignores a PONG that it never asked for', () => {
    const liveness = connected();
    liveness.handlePong(700);
    expect(liveness.roundTripMs).toBeUndefined();
    liveness.poll(1_000, false);
    liveness.handlePong(1_040);
    liveness.handlePong(1_090);
    expect(liveness.roundTripMs).toBe(40);
  });

  it('asks after five seconds, or sooner, while frames wait to be acknowledged', () => {
    const at = (pingIntervalMs: number) => {
      const liveness = new Liveness(resolveTimers({ pingIntervalMs }, true));
      liveness.handleReceived(100);
      return liveness;
    };
    for (const [interval, due] of [
      [60_000, 5_100],
      [5_001, 5_100],
      [4_000, 4_100],
      [Infinity, 5_100],
    ] as const) {
      expect(at(interval).nextPoll(true)).toBe(due);
      expect(at(interval).poll(due - 1, true)).toBeUndefined();
      expect(at(interval).poll(due, true)).toBe('ping');
      expect(at(interval).nextPoll(false)).toBe(100 + interval);
    }
    // The time for the answer is the same.
    const liveness = connected();
    liveness.poll(1_000, true);
    expect(liveness.nextPoll(true)).toBe(1_100);
  });

  it('starts again with a connection, without the missed PONGs of the previous one', () => {
    const liveness = connected();
    for (const said of ['ping', 'ping', 'ping'])
      expect(liveness.poll(liveness.nextPoll(false), false)).toBe(said);
    liveness.restart(5_000);
    expect(liveness.nextPoll(false)).toBe(6_000);
    liveness.handlePong(5_010);
    expect(liveness.roundTripMs).toBeUndefined();
    for (const said of ['ping', 'ping', 'ping', 'lost'])
      expect(liveness.poll(liveness.nextPoll(false), false)).toBe(said);
  });

  it('never asks if the interval is Infinity', () => {
    const liveness = new Liveness(resolveTimers({ pingIntervalMs: Infinity }));
    liveness.handleReceived(5);
    expect([liveness.poll(1e12, false), liveness.nextPoll(false)]).toEqual([undefined, Infinity]);
  });
});
