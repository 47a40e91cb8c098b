import { describe, expect, it } from 'vitest';
import { resolveTimers } from '../base/limits.js';
import { Pacer } from '../link/rates.js';
import { Liveness, SessionTimers, type TimedSession } from './timers.js';

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

  describe('of a connection that may be gone', () => {
    const SLOW = resolveTimers({ pingIntervalMs: 25_000, pongTimeoutMs: 10_000 });
    const doubted = () => {
      const liveness = new Liveness(SLOW);
      liveness.handleReceived(0);
      liveness.probe();
      return liveness;
    };

    it('asks at once, and gives it up after 9 s', () => {
      const liveness = doubted();
      const said = [100, 3_100, 6_100, 9_099, 9_100].map((now) => liveness.poll(now, false));
      expect(said).toEqual(['ping', 'ping', 'ping', undefined, 'lost']);
    });

    it('asks beside a PING that waits for its PONG, and both have to be answered', () => {
      const liveness = new Liveness(SLOW);
      liveness.handleReceived(0);
      expect(liveness.poll(25_000, false)).toBe('ping');
      liveness.probe();
      expect(liveness.poll(25_001, false)).toBe('ping');
      liveness.handleReceived(25_100);
      liveness.handlePong(25_100);
      expect(liveness.nextPoll(false)).toBe(28_100);
      liveness.handleReceived(25_200);
      liveness.handlePong(25_200);
      expect(liveness.nextPoll(false)).toBe(50_200);
    });

    it('does not take frames for an answer that may have arrived before', () => {
      const liveness = doubted();
      liveness.poll(100, false);
      liveness.handleReceived(200);
      const said = [3_100, 3_200, 6_200, 9_200, 12_200].map((now) => liveness.poll(now, false));
      expect(said).toEqual([undefined, 'ping', 'ping', 'ping', 'lost']);
    });

    it('is asked once, however many signs there are, and another connection is not', () => {
      const liveness = doubted();
      liveness.poll(100, false);
      liveness.probe();
      expect(liveness.nextPoll(false)).toBe(3_100);
      liveness.restart(200);
      expect(liveness.nextPoll(false)).toBe(25_200);
    });
  });

  it('never asks if the interval is Infinity', () => {
    const liveness = new Liveness(resolveTimers({ pingIntervalMs: Infinity }));
    liveness.handleReceived(5);
    expect([liveness.poll(1e12, false), liveness.nextPoll(false)]).toEqual([undefined, Infinity]);
  });
});

const TIMERS = resolveTimers({ pingIntervalMs: 700, pongTimeoutMs: 50 }, true);

/** A server's session whose role, channel and outbox wait for nothing. */
const waiting = (change: Partial<TimedSession> = {}): TimedSession => ({
  isEstablished: true,
  isLost: false,
  role: { answerDue: Infinity, credentialsEnd: Infinity, idleTimeoutMs: Infinity },
  outbox: { isPaced: false, pace: undefined },
  channel: { openStreams: 0, framesUnconfirmed: 0, nextTimeout: () => Infinity },
  ...change,
});
const role = (change: Partial<TimedSession['role']>) => ({ role: { ...waiting().role, ...change } });
const channel = (change: Partial<TimedSession['channel']>) => ({
  channel: { ...waiting().channel, ...change },
});
const timersAt = (now: number) => {
  const timers = new SessionTimers(TIMERS);
  timers.tick(now);
  timers.liveness.restart(now);
  timers.touch();
  return timers;
};
const exhausted = () => {
  const pace = new Pacer({ bytesPerSecond: 1_000 });
  pace.write(1_100, 100);
  return { outbox: { isPaced: true, pace } };
};
const LOST = { isEstablished: false, isLost: true };
const CONNECTING = { isEstablished: false };

describe('the next deadline of a session', () => {
  it.each([
    ['a PING after silence', {}, 800],
    ['a PING while frames wait to be acknowledged', channel({ framesUnconfirmed: 1 }), 800],
    ['the credentials', role({ credentialsEnd: 300 }), 300],
    ['idleness', role({ idleTimeoutMs: 250 }), 350],
    [
      'idleness, unless a stream is open',
      { ...role({ idleTimeoutMs: 250 }), ...channel({ openStreams: 1 }) },
      800,
    ],
    [
      'a PING while a client reads a stream',
      { ...role({ awaitsStreams: true }), ...channel({ openStreams: 1 }) },
      800,
    ],
    ['the link', channel({ nextTimeout: () => 120 }), 120],
    ['the rate of the peer', exhausted(), 200],
    [
      'nothing before it is established',
      { ...CONNECTING, ...role({ credentialsEnd: 300, idleTimeoutMs: 1 }) },
      Infinity,
    ],
    ['the link, also while it closes', { ...CONNECTING, ...channel({ nextTimeout: () => 120 }) }, 120],
    ['the answer to HELLO, without a connection', { ...LOST, ...role({ answerDue: 400 }) }, 400],
    ['no link, without a connection', { ...LOST, ...channel({ nextTimeout: () => 120 }) }, Infinity],
  ] as const)('is that of %s', (_name, change, expected) => {
    expect(timersAt(100).next(waiting(change))).toBe(expected);
  });

  it.each([CONNECTING, LOST, {}])('is the timeout of the state if that is sooner', (change) => {
    const timers = timersAt(100);
    timers.startState(10);
    expect(timers.next(waiting(change))).toBe(110);
    timers.stopState();
    expect(timers.next(waiting(change))).toBeGreaterThan(110);
  });
});

describe('due work', () => {
  const all = role({ answerDue: 500, credentialsEnd: 500, idleTimeoutMs: 400 });

  it('comes one at a time, that of the state first and once', () => {
    const timers = timersAt(100);
    timers.startState(400);
    expect(timers.due(499, waiting(all))).toBeUndefined();
    expect(timers.due(500, waiting(all))).toBe('state');
    expect(timers.due(500, waiting(all))).toBe('answer');
  });

  it.each([
    ['answer', all],
    ['credentials', role({ credentialsEnd: 500, idleTimeoutMs: 400 })],
    ['idle', role({ idleTimeoutMs: 400 })],
    [undefined, {}],
    [undefined, { ...role({ credentialsEnd: 500, idleTimeoutMs: 400 }), ...CONNECTING }],
  ] as const)('is %s before all that follow', (due, change) => {
    expect(timersAt(100).due(500, waiting(change))).toBe(due);
  });

  it('is a PING after silence, then the loss of the connection', () => {
    const timers = timersAt(100);
    const due = [];
    for (let i = 0; i < 4; i++) due.push(timers.due(timers.next(waiting()), waiting()));
    expect(due).toEqual(['ping', 'ping', 'ping', 'lost']);
  });
});

describe('closing', () => {
  it('ends a suspended session with its window, and a resumed one with the closing timeout', () => {
    const timers = timersAt(100);
    timers.startState(300);
    timers.startClosing(1_000);
    expect(timers.next(waiting(LOST))).toBe(400);
    timers.resumeClosing();
    expect(timers.next(waiting(CONNECTING))).toBe(1_100);
  });

  it('ends a suspended session sooner than its window if its timeout is shorter', () => {
    const timers = timersAt(100);
    timers.startState(5_000);
    timers.startClosing(1_000);
    expect(timers.next(waiting(LOST))).toBe(1_100);
  });
});

it('clock readings never go back', () => {
  const timers = timersAt(100);
  timers.tick(50);
  expect(timers.now).toBe(100);
});

it('a silent stream that a client reads is asked about after 5 s, and then less and less often', () => {
  const timers = new SessionTimers(resolveTimers({ pingIntervalMs: 25_000 }));
  const session = waiting({ ...role({ awaitsStreams: true }), ...channel({ openStreams: 1 }) });
  timers.touch();
  timers.liveness.restart(0);
  const asked: number[] = [];
  for (let i = 0; i < 5; i++) {
    const now = timers.next(session);
    timers.tick(now);
    expect(timers.due(now, session)).toBe('ping');
    timers.liveness.handleReceived(now);
    timers.liveness.handlePong(now);
    asked.push(now);
  }
  expect(asked).toEqual([5_000, 10_000, 20_000, 40_000, 65_000]);
  expect(timers.next(waiting(channel({ openStreams: 1 })))).toBe(90_000);
});
