import { describe, expect, it } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import {
  ANNOUNCED_LIMITS,
  CLIENT_LIMITS,
  DEFAULT_LIMITS,
  DEFAULT_TIMERS,
  isSet,
  type Limits,
  limitsWithin,
  resolveLimits,
  resolveTimers,
  statedJsonLimits,
  type Timers,
} from './limits.js';

const MIB = 1024 * 1024;

describe('limits of a client', () => {
  const usual = resolveLimits({ maxStreams: 9 }, CLIENT_LIMITS);
  it.each([
    ['that states none', 0, 16 * MIB],
    ['that takes less than the default', MIB, 16 * MIB],
    ['with the default', 16 * MIB, 16 * MIB],
    ['that takes a byte more', 16 * MIB + 1, 16 * MIB + 1],
    ['that takes nearly as much as the client', 256 * MIB - 1, 256 * MIB - 1],
    ['that takes as much', 256 * MIB, 256 * MIB],
    ['that states more than it was offered', 300 * MIB, 256 * MIB],
  ])('follow a server %s', (_what, agreed, most) => {
    const within = limitsWithin(usual, agreed);
    expect(within).toEqual({ ...usual, maxMessageSize: most });
    expect(isSet(within, 'maxMessageSize')).toBe(false);
    expect(isSet(within, 'maxStreams')).toBe(true);
  });

  it.each([1_000, 16 * MIB, 64 * MIB, Infinity])(
    'are those of the application if it sets them: %s',
    (size) => {
      const own = resolveLimits({ maxMessageSize: size }, CLIENT_LIMITS);
      expect(limitsWithin(own, 20 * MIB)).toBe(own);
      expect(isSet(own, 'maxMessageSize')).toBe(true);
    },
  );

  it('keep which limits of JSON the application has set', () => {
    const within = limitsWithin(resolveLimits({ maxJsonDepth: 32 }, CLIENT_LIMITS), 20 * MIB);
    expect(statedJsonLimits(within)).toMatchObject({ maxJsonDepth: 32, maxJsonValues: Infinity });
  });
});

describe('limits', () => {
  it('have the defaults of the protocol document', () => {
    expect(resolveLimits()).toEqual({
      maxMessageSize: 16_777_216,
      maxTransferSize: 1_073_741_824,
      maxHandshakeSize: 65_536,
      maxMetadataSize: 8_192,
      maxJsonDepth: 32,
      maxStringLength: 10_485_760,
      maxArrayLength: 10_000,
      maxJsonValues: 131_072,
      maxStreams: 128,
      sessionWindow: 4_194_304,
      streamWindow: 1_048_576,
      sessionMemory: 33_554_432,
      contextBytes: 4_194_304,
      contextMessages: 8,
      messagesPerMinute: 6_000,
      bytesPerSecond: 10_000_000,
      controlMessagesPerMinute: 600,
      sessionsPerIp: 100,
      sessionsPerMinutePerIp: 100,
      connectionsPerMinutePerIp: 600,
      failuresPerMinutePerIp: 60,
      sessionsPerPrincipal: 100,
      handshakesPerIp: 1_000,
      maxFragments: 1_024,
    });
    for (const name of ANNOUNCED_LIMITS) expect(DEFAULT_LIMITS).toHaveProperty(name);
  });

  it('can be changed one by one and are frozen', () => {
    const limits = resolveLimits({
      maxStreams: 1,
      maxArrayLength: Infinity,
      maxJsonDepth: undefined as never,
    });
    expect(limits).toEqual({ ...DEFAULT_LIMITS, maxStreams: 1, maxArrayLength: Infinity });
    expect(Object.isFrozen(limits) && Object.isFrozen(DEFAULT_LIMITS)).toBe(true);
  });

  it.each([0, -1, 1.5, Number.NaN, -Infinity, 2 ** 53, '5', null, true, 5n])(
    'refuse the value %s',
    (value) => {
      for (const name of Object.keys(DEFAULT_LIMITS) as (keyof Limits)[]) {
        expect(errorCode(() => resolveLimits({ [name]: value }))).toBe('invalid_option');
      }
    },
  );

  it.each(['maxMessagesize', 'toString', '__proto__'])('refuse the name %s', (name) => {
    expect(errorCode(() => resolveLimits(JSON.parse(`{"${name}":1}`)))).toBe('invalid_option');
  });
});

describe('timers', () => {
  const RANGES: readonly (readonly [keyof Timers, number, number])[] = [
    ['helloTimeoutMs', 1, 600_000],
    ['acceptTimeoutMs', 1, 600_000],
    ['idleTimeoutMs', 60_000, 3_600_000],
    ['pingIntervalMs', 10_000, 300_000],
    ['pongTimeoutMs', 5_000, 60_000],
    ['closingTimeoutMs', 1, 600_000],
    ['resumeWindowMs', 0, 86_400_000],
  ];

  it('have the defaults of the protocol document', () => {
    expect(resolveTimers()).toEqual({
      helloTimeoutMs: 10_000,
      acceptTimeoutMs: 30_000,
      idleTimeoutMs: 300_000,
      pingIntervalMs: 25_000,
      pongTimeoutMs: 10_000,
      closingTimeoutMs: 5_000,
      resumeWindowMs: 120_000,
      reloadWindowMs: 30_000,
    });
    expect(Object.isFrozen(resolveTimers()) && Object.isFrozen(DEFAULT_TIMERS)).toBe(true);
  });

  it.each(RANGES)('%s is %i to %i ms or Infinity', (name, least, most) => {
    for (const value of [least, most, Infinity])
      expect(resolveTimers({ [name]: value })).toEqual({ ...DEFAULT_TIMERS, [name]: value });
    for (const value of [least - 1, most + 1, Number.NaN, -Infinity, `${least}`, true, null])
      expect(errorCode(() => resolveTimers({ [name]: value }))).toBe('invalid_option');
  });

  it('go below their range for tests, but never below zero', () => {
    expect(resolveTimers({ pingIntervalMs: 5 }, true).pingIntervalMs).toBe(5);
    expect(resolveTimers({ pingIntervalMs: undefined as never }, true)).toEqual(DEFAULT_TIMERS);
    for (const value of [-1, Number.NaN, '5'])
      expect(errorCode(() => resolveTimers({ pingIntervalMs: value as number }, true))).toBe(
        'invalid_option',
      );
  });

  it.each(['pingInterval', 'constructor', '__proto__'])('refuse the name %s', (name) => {
    expect(errorCode(() => resolveTimers(JSON.parse(`{"${name}":10000}`)))).toBe('invalid_option');
  });
});
