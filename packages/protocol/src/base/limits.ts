import { ProtocolError } from './errors.js';
import { assertObject, unknownName } from './options.js';

/**
 * Every size, count and rate that bounds a session, with its default.
 *
 * `Infinity` turns a limit off and leaves it out of ACCEPT. An unknown name or a value of the wrong
 * kind throws `invalid_option`.
 */
export interface Limits {
  /**
   * Bytes of a message, also after decompression or detokenization. @default 16 MiB; of a client what the server states, from 16 to 256 MiB
   */
  readonly maxMessageSize: number;
  /**
   * Bytes of a tensor, or of a body that `onFetch` gets as a stream; `maxMessageSize` does not apply to them. @default 1 GiB, but 16 MiB for a tensor that
   * this end assembles in memory
   */
  readonly maxTransferSize: number;
  /**
   * Bytes of HELLO, of ACCEPT and of any message before ACCEPT; later control messages may have 20 KiB.
   * @default 64 KiB
   */
  readonly maxHandshakeSize: number;
  /** Bytes of the metadata map of one message. @default 8 KiB */
  readonly maxMetadataSize: number;
  /**
   * Levels of nesting in JSON and MessagePack. The content of messages has this and the next three limits only if the application
   * sets them: by default, memory is charged for it in place of counts (docs/protocol/limits.md). @default 32
   */
  readonly maxJsonDepth: number;
  /** UTF-8 bytes of one JSON string. @default 10 MiB */
  readonly maxStringLength: number;
  /** Elements of one JSON array. @default 10,000 */
  readonly maxArrayLength: number;
  /** Values of one parsed JSON document; each key counts as one. @default 131,072 */
  readonly maxJsonValues: number;
  /** Streams that a peer may have open at once. @default 128 */
  readonly maxStreams: number;
  /** Bytes of one session, per direction, that are in flight or unread. @default 4 MiB */
  readonly sessionWindow: number;
  /** Bytes of one stream, per direction, that are in flight or unread. @default 1 MiB */
  readonly streamWindow: number;
  /**
   * Bytes of memory that the peer of one session may use: decoded messages until their handler or reader is
   * done with them, and tensors that are being assembled or unread. Anything beyond that waits.
   * @default 32 MiB
   */
  readonly sessionMemory: number;
  /** Bytes of earlier messages that each end keeps for context coding, per direction. @default 4 MiB */
  readonly contextBytes: number;
  /** Earlier messages that each end keeps for context coding, per direction. @default 8 */
  readonly contextMessages: number;
  /** Messages, requests and transfers of one session per minute. @default 6000 */
  readonly messagesPerMinute: number;
  /** Bytes of one session per second; a frame counts as at least 64. @default 10,000,000 */
  readonly bytesPerSecond: number;
  /** Control messages of one session per minute, not counting DATA. @default 600 */
  readonly controlMessagesPerMinute: number;
  /** Sessions of one IP address, or of one /64 of IPv6. @default 100 */
  readonly sessionsPerIp: number;
  /** New sessions of one IP address per minute; a resume does not count. @default 100 */
  readonly sessionsPerMinutePerIp: number;
  /** Connections of one IP address per minute, including those that fail or resume a session. @default 600 */
  readonly connectionsPerMinutePerIp: number;
  /** Wrong credentials and failed handshakes of one IP address per minute. @default 60 */
  readonly failuresPerMinutePerIp: number;
  /** Sessions of one principal, from any address. @default 100 */
  readonly sessionsPerPrincipal: number;
  /**
   * Connections of one IP address that have no session yet; a newer one replaces the oldest without HELLO.
   * @default 1000
   */
  readonly handshakesPerIp: number;
  /** WebSocket fragments of one message. @default 1024 */
  readonly maxFragments: number;
}

const MIB = 1024 * 1024;

export const DEFAULT_LIMITS: Limits = Object.freeze({
  maxMessageSize: 16 * MIB,
  maxTransferSize: 1024 * MIB,
  maxHandshakeSize: 64 * 1024,
  maxMetadataSize: 8 * 1024,
  maxJsonDepth: 32,
  maxStringLength: 10 * MIB,
  maxArrayLength: 10_000,
  maxJsonValues: 128 * 1024,
  maxStreams: 128,
  sessionWindow: 4 * MIB,
  streamWindow: MIB,
  sessionMemory: 32 * MIB,
  contextBytes: 4 * MIB,
  contextMessages: 8,
  messagesPerMinute: 6000,
  bytesPerSecond: 10_000_000,
  controlMessagesPerMinute: 600,
  sessionsPerIp: 100,
  sessionsPerMinutePerIp: 100,
  connectionsPerMinutePerIp: 600,
  failuresPerMinutePerIp: 60,
  sessionsPerPrincipal: 100,
  handshakesPerIp: 1000,
  maxFragments: 1024,
});

/**
 * The defaults of a client. Its server states how large a message may be, so by itself a client only bounds that; see
 * {@link limitsWithin} (docs/design/session-and-resume.md, HELLO and ACCEPT).
 */
export const CLIENT_LIMITS: Limits = Object.freeze({ ...DEFAULT_LIMITS, maxMessageSize: 256 * MIB });

/** The default of `maxTransferSize` for a tensor that this end assembles in memory, in bytes. */
export const MAX_ASSEMBLED_SIZE = 16 * MIB;

/** The limits that ACCEPT reports to the peer, which must respect them. Snapshots have them in this order: new ones come last. */
export const ANNOUNCED_LIMITS = [
  'maxMessageSize',
  'maxTransferSize',
  'maxMetadataSize',
  'maxStreams',
  'messagesPerMinute',
  'bytesPerSecond',
] as const satisfies readonly (keyof Limits)[];

/**
 * Fills in defaults and checks every value.
 *
 * @throws {ProtocolError} `invalid_option` for an unknown name, or a value that is not a positive
 * whole number or `Infinity`.
 */
export function resolveLimits(
  limits: Partial<Record<keyof Limits, number | undefined>> = {},
  defaults: Limits = DEFAULT_LIMITS,
): Limits {
  assertObject(limits, 'limits');
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(DEFAULT_LIMITS, name)) throw unknownName('limit', name, Object.keys(DEFAULT_LIMITS));
    if (value !== undefined && value !== Infinity && !(Number.isSafeInteger(value) && value > 0))
      throw new ProtocolError(
        'invalid_option',
        `limit ${name} must be a positive whole number or Infinity, not ${shown(value)}`,
      );
  }
  const resolved: Limits = Object.freeze({ ...defaults, ...definedOnly<Limits>(limits) });
  stated.set(resolved, definedOnly<Limits>(limits));
  return resolved;
}

/** The limits that the application has set itself, by the resolved object. */
const stated = new WeakMap<Limits, Partial<Limits>>();

/** Whether the application has set a limit. If the object was not resolved, a value counts as set if it is not the default. */
export function isSet(limits: Limits, name: keyof Limits): boolean {
  const given = stated.get(limits);
  return given === undefined ? limits[name] !== DEFAULT_LIMITS[name] : given[name] !== undefined;
}

/**
 * The limits of a client in a session. If the application has not set `maxMessageSize`, the client takes what both ends have stated, and at least the
 * default of a server. Other memory that this limit bounds is therefore not larger than the server needs.
 *
 * @param agreed bytes; 0 is unstated.
 */
export function limitsWithin(limits: Limits, agreed: number): Limits {
  const maxMessageSize = Math.max(agreed, DEFAULT_LIMITS.maxMessageSize);
  if (maxMessageSize >= limits.maxMessageSize || isSet(limits, 'maxMessageSize')) return limits;
  const within: Limits = Object.freeze({ ...limits, maxMessageSize });
  stated.set(within, stated.get(limits) ?? {});
  return within;
}

const JSON_LIMITS = ['maxJsonDepth', 'maxStringLength', 'maxArrayLength', 'maxJsonValues'] as const;

/** The limits of JSON that the application has set; `Infinity` for the others. */
export function statedJsonLimits(limits: Limits): Pick<Limits, (typeof JSON_LIMITS)[number]> {
  const [maxJsonDepth, maxStringLength, maxArrayLength, maxJsonValues] = JSON_LIMITS.map((name) =>
    isSet(limits, name) ? limits[name] : Infinity,
  ) as [number, number, number, number];
  return { maxJsonDepth, maxStringLength, maxArrayLength, maxJsonValues };
}

/** Times of a session in milliseconds. `Infinity` turns a timer off. */
export interface Timers {
  /** Server: from the connection to HELLO. @default 10 s */
  readonly helloTimeoutMs: number;
  /**
   * Client: until the connection is open, and again from HELLO to its answer. After each attempt to connect again that has taken
   * all of this time, the next one may take twice as long, up to 30 s, until one succeeds. @default 30 s
   */
  readonly acceptTimeoutMs: number;
  /** A session without data or an open stream for this long is closed. @default 300 s, 60 s to 1 h */
  readonly idleTimeoutMs: number;
  /**
   * A PING is sent after this much silence, so that proxies keep the connection: the default of nginx ends one after 60 s.
   * @default 25 s, 10 s to 300 s
   */
  readonly pingIntervalMs: number;
  /**
   * How long a PONG may take; after three missed in a row the connection counts as lost.
   * @default 10 s, 5 s to 60 s
   */
  readonly pongTimeoutMs: number;
  /** How long a graceful close may take. @default 5 s */
  readonly closingTimeoutMs: number;
  /** How long a session survives without a connection; the server decides. @default 120 s, up to 24 h */
  readonly resumeWindowMs: number;
  /**
   * Server: how long a session survives without a connection if its page has detached from it; `resumeWindowMs` if
   * that is less. @default 30 s, up to 24 h
   */
  readonly reloadWindowMs: number;
}

export const DEFAULT_TIMERS: Timers = Object.freeze({
  helloTimeoutMs: 10_000,
  acceptTimeoutMs: 30_000,
  idleTimeoutMs: 300_000,
  pingIntervalMs: 25_000,
  pongTimeoutMs: 10_000,
  closingTimeoutMs: 5_000,
  resumeWindowMs: 120_000,
  reloadWindowMs: 30_000,
});

const TIMER_RANGES: { readonly [K in keyof Timers]: readonly [number, number] } = {
  helloTimeoutMs: [1, 600_000],
  acceptTimeoutMs: [1, 600_000],
  idleTimeoutMs: [60_000, 3_600_000],
  pingIntervalMs: [10_000, 300_000],
  pongTimeoutMs: [5_000, 60_000],
  closingTimeoutMs: [1, 600_000],
  resumeWindowMs: [0, 86_400_000],
  reloadWindowMs: [0, 86_400_000],
};

/**
 * Fills in defaults and checks every value.
 *
 * @param unchecked accepts values outside the ranges, for tests.
 * @throws {ProtocolError} `invalid_option` for an unknown name or a value out of its range.
 */
export function resolveTimers(
  timers: Partial<Record<keyof Timers, number | undefined>> = {},
  unchecked = false,
): Timers {
  assertObject(timers, 'timers');
  for (const [name, value] of Object.entries(timers)) {
    if (!Object.hasOwn(TIMER_RANGES, name)) throw unknownName('timer', name, Object.keys(TIMER_RANGES));
    const [least, most] = TIMER_RANGES[name as keyof Timers];
    if (value === undefined || value === Infinity) continue;
    if (typeof value !== 'number' || !(value >= 0) || (!unchecked && (value < least || value > most)))
      throw new ProtocolError(
        'invalid_option',
        `timer ${name} must be ${least} to ${most} ms or Infinity, not ${shown(value)}`,
      );
  }
  return Object.freeze({ ...DEFAULT_TIMERS, ...definedOnly<Timers>(timers) });
}

/** Quotes strings, so that `'5'` does not look like the number 5. */
function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}

function definedOnly<T>(values: Partial<Record<keyof T, unknown>>): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}
