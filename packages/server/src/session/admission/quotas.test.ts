import { DEFAULT_LIMITS } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { Quotas } from './quotas.js';

const NONE = {
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  sessionsPerPrincipal: Infinity,
};
const quotas = (limits: Partial<typeof NONE>, maxIdle?: number) =>
  new Quotas({ ...NONE, ...limits }, () => 0, maxIdle);

describe('sessions of an address', () => {
  it('are limited to n, and one more is admitted after one has ended', () => {
    const q = quotas({ sessionsPerIp: 3 });
    for (let i = 0; i < 3; i++) expect(q.admit('a', undefined, 0)).toBeUndefined();
    expect(q.admit('a', undefined, 0)).toMatchObject({
      code: 'RATE_LIMITED',
      closeCode: 4429,
      retryAfterMs: 5_000,
    });
    expect(q.admit('b', undefined, 0)).toBeUndefined();
    q.release('a', undefined);
    expect(q.admit('a', undefined, 0)).toBeUndefined();
    expect(q.admit('a', undefined, 0)).toBeDefined();
  });

  it('count together with connections that are proxied to other nodes, which are no new sessions', () => {
    const q = quotas({ sessionsPerIp: 2, sessionsPerMinutePerIp: 1, sessionsPerPrincipal: 0 });
    for (let i = 0; i < 5; i++) {
      expect(q.admitProxy('a', 0)).toBeUndefined();
      q.release('a', undefined);
    }
    expect(q.admit('a', undefined, 0)).toBeUndefined();
    expect(q.admitProxy('a', 0)).toBeUndefined();
    expect(q.admitProxy('a', 0)).toMatchObject({ code: 'RATE_LIMITED', closeCode: 4429 });
    expect(q.admitProxy('b', 0)).toBeUndefined();
    q.release('a', undefined);
    expect(q.admitProxy('a', 0)).toBeUndefined();
  });

  it('may begin n times a minute, and again after the stated delay', () => {
    const q = quotas({ sessionsPerMinutePerIp: 60 });
    for (let i = 0; i < 60; i++) {
      expect(q.admit('a', undefined, 0)).toBeUndefined();
      q.release('a', undefined);
    }
    // The delay covers the debt and the next session.
    expect(q.admit('a', undefined, 0)).toMatchObject({ code: 'RATE_LIMITED', retryAfterMs: 2_000 });
    expect(q.admit('b', undefined, 0)).toBeUndefined();
    expect(q.admit('a', undefined, 2_000)).toBeUndefined();
    expect(q.admit('a', undefined, 2_000)).toBeDefined();
  });

  it('that are requested without pause lead to HTTP 429 until the debt is paid', () => {
    const q = quotas({ sessionsPerMinutePerIp: 10 });
    for (let i = 0; i < 19; i++) q.admit('a', undefined, 0);
    expect(q.connect('a', 0)).toBe(0);
    q.admit('a', undefined, 0);
    expect(q.connect('a', 0)).toBe(6_000);
    // Requests beyond that do not increase the debt.
    for (let i = 0; i < 100; i++) q.admit('a', undefined, 0);
    expect(q.connect('a', 0)).toBe(6_000);
    expect(q.connect('a', 6_000)).toBe(0);
    expect(q.connect('b', 0)).toBe(0);
  });

  it('that are refused together get different retry delays', () => {
    const q = new Quotas({ ...NONE, sessionsPerIp: 0 }, Math.random);
    const delays = Array.from({ length: 50 }, (_, i) => q.admit(`a${i}`, undefined, 0)?.retryAfterMs ?? 0);
    expect(new Set(delays).size).toBeGreaterThan(25);
    for (const delay of delays) {
      expect(delay).toBeGreaterThanOrEqual(5_000);
      expect(delay).toBeLessThanOrEqual(10_000);
    }
  });
});

describe('connections of an address', () => {
  it('are limited to n a minute, and the next one has to wait', () => {
    const q = quotas({ connectionsPerMinutePerIp: 60 });
    for (let i = 0; i < 60; i++) expect(q.connect('a', 0)).toBe(0);
    expect(q.connect('a', 0)).toBe(1_000);
    // Refused attempts do not make the wait longer.
    expect(q.connect('a', 0)).toBe(1_000);
    expect(q.connect('b', 0)).toBe(0);
    expect(q.connect('a', 999)).toBeGreaterThan(0);
    expect([q.connect('a', 1_000), q.connect('a', 1_000)]).toEqual([0, 1_000]);
  });

  it('are refused without authentication after n failures', () => {
    const q = quotas({ failuresPerMinutePerIp: 6 });
    for (let i = 0; i < 6; i++) {
      expect([q.connect('a', 0), q.checkAttempt('a', true, 0)]).toEqual([0, undefined]);
      q.fail('a', 0);
    }
    expect(q.connect('a', 0)).toBe(10_000);
    expect(q.checkAttempt('a', true, 0)).toMatchObject({
      code: 'RATE_LIMITED',
      closeCode: 4429,
      retryAfterMs: 10_000,
    });
    expect([q.connect('b', 0), q.checkAttempt('b', true, 0)]).toEqual([0, undefined]);
    expect([q.connect('a', 10_000), q.checkAttempt('a', true, 10_000)]).toEqual([0, undefined]);
  });

  it('are authenticated for n new sessions a minute, and beyond that only to resume', () => {
    const q = quotas({ sessionsPerMinutePerIp: 3 });
    for (let i = 0; i < 3; i++) {
      expect(q.checkAttempt('a', true, 0)).toBeUndefined();
      q.admit('a', undefined, 0);
    }
    expect(q.checkAttempt('a', true, 0)).toMatchObject({ code: 'RATE_LIMITED' });
    expect(q.checkAttempt('a', false, 0)).toBeUndefined();
    expect(q.checkAttempt('b', true, 0)).toBeUndefined();
  });

  it('that all fail at once add a debt of one minute at most', () => {
    const q = quotas({ failuresPerMinutePerIp: 6 });
    for (let i = 0; i < 1_000; i++) q.fail('a', 0);
    expect(q.connect('a', 0)).toBe(70_000);
  });
});

describe('sessions of a principal', () => {
  it('are limited to n, from all addresses together', () => {
    const q = quotas({ sessionsPerPrincipal: 2 });
    expect(q.admit('a', 'u1', 0)).toBeUndefined();
    expect(q.admit('b', 'u1', 0)).toBeUndefined();
    expect(q.admit('c', 'u1', 0)).toMatchObject({ code: 'RATE_LIMITED', closeCode: 4429 });
    expect(q.admit('c', 'u2', 0)).toBeUndefined();
    q.release('b', 'u1');
    expect(q.admit('c', 'u1', 0)).toBeUndefined();
  });

  it.each(['__proto__', 'constructor', 'toString'])('named %s are counted like any others', (name) => {
    const q = quotas({ sessionsPerPrincipal: 1, sessionsPerIp: 1 });
    expect(q.admit(name, name, 0)).toBeUndefined();
    expect(q.admit('other', name, 0)).toBeDefined();
    expect(q.admit(name, 'other', 0)).toBeDefined();
  });
});

describe('what is remembered', () => {
  it('is bounded, however many addresses ask', () => {
    const q = quotas({ sessionsPerIp: 1 }, 100);
    for (let i = 0; i < 10_000; i++) {
      q.admit(`a${i}`, undefined, 0);
      q.release(`a${i}`, undefined);
    }
    expect(q.size).toBeLessThanOrEqual(100);
  });

  it('always includes addresses with sessions', () => {
    const q = quotas({ sessionsPerIp: 1 }, 10);
    q.admit('mine', 'me', 0);
    for (let i = 0; i < 1_000; i++) {
      q.admit(`a${i}`, undefined, 0);
      q.release(`a${i}`, undefined);
    }
    expect(q.admit('mine', 'me', 0)).toBeDefined();
  });

  it('is forgotten once all limits are unused again', () => {
    const q = quotas({
      sessionsPerMinutePerIp: 60,
      connectionsPerMinutePerIp: 60,
      failuresPerMinutePerIp: 60,
    });
    for (const key of ['c', 'd']) {
      q.connect(key, -1_000);
      q.fail(key, -1_000);
    }
    expect(q.size).toBe(2);
    q.sweep(0);
    expect(q.size).toBe(0);
    for (const key of ['a', 'b']) {
      q.admit(key, 'u', 0);
      q.release(key, 'u');
    }
    q.admit('b', undefined, 0);
    q.sweep(500);
    expect(q.size).toBe(2);
    q.sweep(1_000);
    expect(q.size).toBe(1);
    q.release('b', undefined);
    q.sweep(60_000);
    expect(q.size).toBe(0);
  });

  it('does not include limits that are off', () => {
    const q = quotas({});
    for (let i = 0; i < 10_000; i++) {
      expect(q.admit('a', 'u', 0)).toBeUndefined();
      q.fail('a', 0);
    }
    expect(q.checkAttempt('a', true, 0)).toBeUndefined();
    expect(q.connect('a', 0)).toBe(0);
    expect(DEFAULT_LIMITS.sessionsPerPrincipal).toBeLessThan(Infinity);
  });
});

describe('sessions that come from other nodes', () => {
  it('count for their address and principal, and are no new sessions', () => {
    const q = quotas({ sessionsPerIp: 2, sessionsPerMinutePerIp: 1, sessionsPerPrincipal: 2 });
    expect(q.admitMoved('a', 'alice', false, 0)).toBeUndefined();
    expect(q.admitMoved('a', 'bob', false, 0)).toBeUndefined();
    expect(q.admitMoved('a', 'carol', false, 0)).toMatchObject({ code: 'RATE_LIMITED' });
    // The connection was counted when it was proxied.
    expect(q.admitMoved('a', 'alice', true, 0)).toBeUndefined();
    expect(q.admitMoved('b', 'alice', false, 0)).toMatchObject({ code: 'RATE_LIMITED' });
    q.release('a', 'alice');
    expect(q.admitMoved('b', 'alice', false, 0)).toBeUndefined();
  });
});
