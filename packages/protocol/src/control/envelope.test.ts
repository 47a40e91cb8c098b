import { Encoder } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm, EncodingName } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { DEFAULT_LIMITS, resolveLimits } from '../base/limits.js';
import { errorCode } from '../testing/error-code.js';
import { decodeControl, decodeControlJson, encodeControl, encodeControlJson } from './envelope.js';
import { decodeMap, encodeMap, MAX_CONTROL_ENTRIES } from './maps.js';
import { CloseReason, type ControlMessage, RejectCode, ResumeRefusal } from './messages.js';

/** Both envelopes: how they write messages and read plain fields. */
const ENVELOPES = [
  {
    envelope: 'MessagePack',
    roundTrip: (message: ControlMessage) => decodeControl(encodeControl(message)),
    read: (fields: unknown) => decodeControl(new Encoder().encode(fields)),
  },
  {
    envelope: 'JSON',
    roundTrip: (message: ControlMessage) => decodeControlJson(encodeControlJson(message)),
    read: (fields: unknown) => decodeControlJson(JSON.stringify(fields)),
  },
] as const;

const text = (maxLength: number) => fc.string({ unit: 'grapheme', maxLength: maxLength / 4 });
const count = fc.maxSafeNat();
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const agentId = optional(fc.stringMatching(/^[A-Za-z0-9._:@-]{1,128}$/));
const extensions = fc.dictionary(
  text(40).filter((name) => name !== '__proto__'),
  text(40),
  { maxKeys: 8 },
);
const algorithms = fc.uniqueArray(fc.constantFrom(...Object.values(Algorithm)));
const encoding = fc.constantFrom(...Object.values(EncodingName));
const encodings = fc.uniqueArray(encoding);
const timestamp = count;
const sessionId = fc.string({ minLength: 1, maxLength: 128 });
const head = { sessionId: fc.option(sessionId), timestamp };

const stated = {
  version: fc.string({ minLength: 1, maxLength: 32 }),
  algorithms,
  securityScanning: fc.boolean(),
  maxPayloadSize: count,
  agentId,
  extensions,
};
const auth = optional(fc.record({ token: fc.string({ minLength: 1, maxLength: 100 }) }));
const token = fc.string({ minLength: 1, maxLength: 256 });
const offer = fc.record({ sessionId, token, received: count, attempt: count });
const answer = fc.record({
  token,
  windowMs: count,
  recovered: fc.boolean(),
  received: count,
  reason: optional(fc.constantFrom(...Object.values(ResumeRefusal))),
});
const helloPayload = fc.oneof(
  fc.record({
    ...stated,
    shape: fc.constant('flat' as const),
    encodings,
    preferredEncoding: fc.option(encoding),
    supportsStreaming: fc.boolean(),
    auth,
    resume: optional(offer),
    nonce: optional(fc.uint8Array({ minLength: 16, maxLength: 16 })),
  }),
  // The reference has no HELLO without a preferred encoding.
  fc.record({
    ...stated,
    shape: fc.constant('nested' as const),
    encodings,
    preferredEncoding: encoding,
    supportsStreaming: fc.boolean(),
    auth,
    nonce: optional(fc.uint8Array({ minLength: 16, maxLength: 16 })),
  }),
);
const acceptPayload = fc.oneof(
  fc.record({
    ...stated,
    shape: fc.constant('flat' as const),
    encoding: fc.option(encoding),
    encodings: fc.constant([]),
    sessionTimeoutMs: count,
    limits: fc.dictionary(fc.stringMatching(/^[a-zA-Z]{1,20}$/), count, { maxKeys: 8 }),
    resume: optional(answer),
  }),
  // The reference has neither limits nor a session timeout.
  fc.record({
    ...stated,
    shape: fc.constant('nested' as const),
    encoding,
    encodings,
    sessionTimeoutMs: fc.constant(0),
    limits: fc.constant({}),
  }),
);
const securityStatus = fc.record({
  scanned: fc.boolean(),
  safe: fc.boolean(),
  threatType: optional(fc.string({ maxLength: 128 })),
  confidence: optional(fc.double({ min: 0, max: 1, noNaN: true }).map(Math.abs)),
});
const dataPayload = fc.record({
  algorithm: fc.constantFrom(...Object.values(Algorithm)),
  content: fc.string({ unit: 'grapheme' }),
  originalSize: optional(count),
  securityStatus: optional(securityStatus),
});
const of = <Type extends ControlMessage['type']>(type: Type, fields: object) =>
  fc.record({ ...head, type: fc.constant(type), ...fields }) as unknown as fc.Arbitrary<ControlMessage>;
const messages = fc.oneof(
  of('HELLO', { sessionId: fc.constant(null), payload: helloPayload }),
  of('ACCEPT', { sessionId, payload: acceptPayload }),
  of('REJECT', {
    payload: fc.record({
      code: fc.constantFrom(...Object.values(RejectCode)),
      message: text(1_024),
      retryable: optional(fc.boolean()),
      retryAfterMs: optional(count),
    }),
  }),
  of('DATA', { payload: dataPayload }),
  of('CLOSE', {
    payload: fc.record({
      reason: fc.constantFrom(...Object.values(CloseReason)),
      message: text(1_024),
      code: optional(fc.stringMatching(/^[a-z0-9_]{1,64}$/)),
    }),
  }),
  of('PING', { payload: fc.constant({}) }),
  of('PONG', { payload: fc.constant({}) }),
  of('AUTH', {
    payload: fc.oneof(
      fc.record({ token: fc.string({ minLength: 1, maxLength: 100 }) }),
      fc.record({ expiresAt: fc.option(count) }),
    ),
  }),
  of('GOAWAY', {
    payload: fc.record({ retryAfterMs: count, deadline: count, move: fc.constantFrom(undefined, true) }),
  }),
);

const HELLO = {
  version: '1.0',
  algorithms: ['NONE'],
  encodings: ['CL100K_BASE'],
  preferred_encoding: 'CL100K_BASE',
  security_scanning: true,
  max_payload_size: 1,
  supports_streaming: true,
  agent_id: 'agent',
  extensions: { link: '{}' },
  auth: { token: 't' },
  resume: { session_id: 's', token: 't', received: 1, attempt: 1 },
};
const NESTED = {
  version: '3.0',
  agent_id: 'agent',
  compression: {
    algorithms: ['m2m'],
    max_payload: 1,
    streaming: true,
    encodings: ['Cl100kBase'],
    preferred_encoding: 'Cl100kBase',
  },
  security: { threat_detection: true },
  extensions: { link: '{}' },
};
const ACCEPT = {
  version: '1.0',
  algorithms: ['NONE'],
  encoding: 'CL100K_BASE',
  security_scanning: true,
  session_timeout_ms: 1,
  max_payload_size: 1,
  limits: { maxStreams: 1 },
  agent_id: 'agent',
  extensions: { link: '{}' },
  resume: { token: 't', window_ms: 1, recovered: true, received: 1, reason: 'no_state' },
};
const DATA = {
  algorithm: 'NONE',
  content: 'x',
  original_size: 1,
  security_status: { scanned: true, safe: true },
};
const PAYLOADS = {
  HELLO,
  ACCEPT,
  DATA,
  REJECT: { code: 'SERVER_BUSY', message: 'full', retryable: true, retry_after_ms: 1 },
  CLOSE: { reason: 'NORMAL', message: 'bye', code: 'kicked' },
  AUTH: { expires_at: 1 },
  GOAWAY: { retry_after_ms: 1, deadline: 2, move: true },
} as const;
type Known = keyof typeof PAYLOADS;

const envelopeOf = (type: string, payload: unknown) => ({ type, session_id: 's', timestamp: 1, payload });

/** A copy of `fields` in which the field at `path` is `value`, or absent if that is `undefined`. */
function changed(fields: object, [name, ...rest]: readonly string[], value: unknown): object {
  const old = (fields as Record<string, unknown>)[name as string];
  const { [name as string]: _gone, ...others } = fields as Record<string, unknown>;
  if (rest.length > 0) return { ...others, [name as string]: changed(old as object, rest, value) };
  return value === undefined ? others : { ...others, [name as string]: value };
}

describe.each(ENVELOPES)('control messages in $envelope', ({ roundTrip, read }) => {
  it('come back unchanged, in either capability shape', () => {
    fc.assert(
      fc.property(messages, (message) => {
        expect(roundTrip(message)).toEqual(message);
      }),
      { numRuns: 500 },
    );
  });

  const NUMBERS = [-1, 1.5, '1', true, 2 ** 53, {}, []];
  const STRINGS = [1, true, {}, []];
  const BOOLEANS = [1, 'true', {}];
  const OBJECTS = [1, 'x', true, []];
  const NAMES = [1, 'NONE', {}, [1], [null], new Array(65).fill('x')];
  it.each<[Known, string, readonly unknown[]]>([
    ['HELLO', 'version', [...STRINGS, 'v'.repeat(33)]],
    ['HELLO', 'algorithms', NAMES],
    ['HELLO', 'encodings', NAMES],
    ['HELLO', 'preferred_encoding', [...STRINGS, 'e'.repeat(65)]],
    ['HELLO', 'security_scanning', BOOLEANS],
    ['HELLO', 'max_payload_size', NUMBERS],
    ['HELLO', 'supports_streaming', BOOLEANS],
    ['HELLO', 'agent_id', [...STRINGS, 'a b', 'é', 'a\n', 'a'.repeat(129)]],
    ['HELLO', 'extensions', OBJECTS],
    ['HELLO', 'extensions.link', [1, true, {}, 'x'.repeat(16 * 1024 + 1)]],
    ['HELLO', 'auth', OBJECTS],
    ['HELLO', 'auth.token', [...STRINGS, '', undefined, 't'.repeat(16 * 1024 + 1)]],
    ['HELLO', 'resume', OBJECTS],
    ['HELLO', 'resume.session_id', [...STRINGS, '', undefined, 's'.repeat(129)]],
    ['HELLO', 'resume.token', [...STRINGS, '', undefined, 't'.repeat(257)]],
    ['HELLO', 'resume.received', NUMBERS],
    ['HELLO', 'resume.attempt', NUMBERS],
    ['HELLO', 'nonce', STRINGS],
    ['ACCEPT', 'version', STRINGS],
    ['ACCEPT', 'algorithms', NAMES],
    ['ACCEPT', 'encoding', STRINGS],
    ['ACCEPT', 'security_scanning', BOOLEANS],
    ['ACCEPT', 'session_timeout_ms', NUMBERS],
    ['ACCEPT', 'max_payload_size', NUMBERS],
    ['ACCEPT', 'limits', OBJECTS],
    ['ACCEPT', 'limits.maxStreams', NUMBERS],
    ['ACCEPT', 'agent_id', [...STRINGS, 'a b']],
    ['ACCEPT', 'extensions', OBJECTS],
    ['ACCEPT', 'resume', OBJECTS],
    ['ACCEPT', 'resume.token', [...STRINGS, '', undefined, 't'.repeat(257)]],
    ['ACCEPT', 'resume.window_ms', NUMBERS],
    ['ACCEPT', 'resume.recovered', BOOLEANS],
    ['ACCEPT', 'resume.received', NUMBERS],
    ['ACCEPT', 'resume.reason', STRINGS],
    ['DATA', 'algorithm', [...STRINGS, undefined, null, '', 'GZIP', 'M2M'.repeat(50)]],
    ['DATA', 'content', [1, true, {}, [], undefined, null]],
    ['DATA', 'original_size', NUMBERS],
    ['DATA', 'security_status', OBJECTS],
    ['REJECT', 'message', [...STRINGS, 'm'.repeat(1_025)]],
    ['REJECT', 'retryable', BOOLEANS],
    ['REJECT', 'retry_after_ms', NUMBERS],
    ['AUTH', 'token', [...STRINGS, '', 't'.repeat(16 * 1024 + 1)]],
    ['AUTH', 'expires_at', NUMBERS],
    ['GOAWAY', 'retry_after_ms', NUMBERS],
    ['GOAWAY', 'deadline', NUMBERS],
    ['GOAWAY', 'move', BOOLEANS],
    ['CLOSE', 'message', [...STRINGS, 'm'.repeat(1_025)]],
    ['CLOSE', 'code', [...STRINGS, 'k'.repeat(65)]],
  ])('are refused where %s has a %s of the wrong kind', (type, path, values) => {
    for (const value of values) {
      const message = envelopeOf(type, changed(PAYLOADS[type], path.split('.'), value));
      expect([value, errorCode(() => read(message))]).toEqual([value, 'bad_message']);
    }
  });

  it.each<[string, readonly unknown[]]>([
    ['version', STRINGS],
    ['compression.algorithms', NAMES],
    ['compression.encodings', NAMES],
    ['compression.preferred_encoding', STRINGS],
    ['compression.max_payload', NUMBERS],
    ['compression.streaming', BOOLEANS],
    ['security', OBJECTS],
    ['security.threat_detection', BOOLEANS],
    ['extensions', OBJECTS],
  ])('are refused where the nested shape has a %s of the wrong kind', (path, values) => {
    for (const type of path === 'compression.streaming' ? ['HELLO'] : ['HELLO', 'ACCEPT']) {
      for (const value of values) {
        const message = envelopeOf(type, changed(NESTED, path.split('.'), value));
        expect([value, errorCode(() => read(message))]).toEqual([value, 'bad_message']);
      }
    }
  });

  it.each([
    ['type', [undefined, null, 1, {}]],
    ['timestamp', [undefined, null, '1', -1, 1.5]],
    ['session_id', [undefined, null, '', 1, {}, 's'.repeat(129)]],
    ['payload', [1, 'x', []]],
  ])('need a %s', (name, values) => {
    for (const value of values)
      expect([value, errorCode(() => read(changed(envelopeOf('ACCEPT', ACCEPT), [name], value)))]).toEqual([
        value,
        'bad_message',
      ]);
  });

  it('fill in fields that may be absent or null, in every payload', () => {
    for (const nothing of [undefined, null]) {
      const blank = (fields: object) =>
        Object.fromEntries(Object.keys(fields).map((name) => [name, nothing]));
      expect(read(envelopeOf('HELLO', blank(HELLO))).type).toBe('HELLO');
      expect(read(envelopeOf('HELLO', nothing))).toEqual({
        type: 'HELLO',
        sessionId: null,
        timestamp: 1,
        payload: {
          shape: 'flat',
          version: '',
          algorithms: [],
          encodings: [],
          preferredEncoding: null,
          securityScanning: false,
          maxPayloadSize: 0,
          supportsStreaming: false,
          extensions: {},
        },
      });
      expect(read(envelopeOf('ACCEPT', blank(ACCEPT)))).toMatchObject({
        payload: {
          shape: 'flat',
          version: '',
          algorithms: [],
          encoding: null,
          sessionTimeoutMs: 0,
          limits: {},
        },
      });
      expect(read(envelopeOf('REJECT', blank(PAYLOADS.REJECT)))).toMatchObject({
        payload: { code: 'UNKNOWN', message: '' },
      });
      expect(read(envelopeOf('CLOSE', blank(PAYLOADS.CLOSE)))).toMatchObject({
        payload: { reason: 'NORMAL', message: '' },
      });
    }
  });

  it('treat a limit of null as unstated', () => {
    const message = read(
      envelopeOf('ACCEPT', { ...ACCEPT, limits: { maxMessageSize: null, maxStreams: 2 } }),
    );
    expect(message).toMatchObject({ payload: { limits: { maxStreams: 2 } } });
    expect(message).not.toHaveProperty('payload.limits.maxMessageSize');
  });

  it('read an unknown code or reason as the least specific one, even with the name of a prototype member', () => {
    for (const name of ['TEAPOT', 'constructor', '__proto__', '', 1]) {
      expect(read(envelopeOf('REJECT', { code: name }))).toMatchObject({ payload: { code: 'UNKNOWN' } });
      expect(read(envelopeOf('CLOSE', { reason: name }))).toMatchObject({ payload: { reason: 'NORMAL' } });
    }
  });

  it('of a later version have their name read and nothing else', () => {
    expect(read(envelopeOf('TELEPATHY'.repeat(10), { thought: 1 }))).toEqual({
      type: 'UNKNOWN',
      sessionId: 's',
      timestamp: 1,
      name: 'TELEPATHY'.repeat(10).slice(0, 64),
    });
    for (const type of ['hello', 'constructor', '']) expect(read(envelopeOf(type, {})).type).toBe('UNKNOWN');
  });

  it('let no HELLO name a session', () => {
    expect(read(envelopeOf('HELLO', HELLO)).sessionId).toBeNull();
  });

  it('are neither a scalar nor a list', () => {
    for (const value of [[], [envelopeOf('PING', {})], 'PING', 1, null])
      expect(errorCode(() => read(value))).toBe('bad_message');
  });
});

describe('limits of control messages', () => {
  const limits = resolveLimits({ maxHandshakeSize: 200, maxJsonDepth: 5 });
  /** Envelope and payload are two levels. */
  const nested = (levels: number) => {
    let value: unknown = 1;
    for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value };
    return envelopeOf('PING', { value });
  };

  it('MessagePack of n bytes is accepted, of n + 1 refused before it is parsed', () => {
    const fill = (length: number) => encodeMap(envelopeOf('PING', { a: 'x'.repeat(length) }));
    const length = 200 - fill(100).length + 100;
    expect(fill(length)).toHaveLength(200);
    expect(errorCode(() => decodeControl(fill(length), limits))).toBe('none');
    expect(errorCode(() => decodeControl(fill(length + 1), limits))).toBe('message_too_large');
    expect(errorCode(() => decodeControl(new Uint8Array(201), limits))).toBe('message_too_large');
  });

  it('JSON of n characters is accepted, of n + 1 refused, unless it is DATA', () => {
    const json = (type: string, length: number) => {
      const empty = JSON.stringify(envelopeOf(type, { algorithm: 'NONE', content: '' }));
      return empty.replace('""', `"${'x'.repeat(length - empty.length)}"`);
    };
    const read = (text: string) => errorCode(() => decodeControlJson(text, limits, 300));
    expect([read(json('PING', 300)), read(json('PING', 301))]).toEqual(['none', 'message_too_large']);
    expect(read(json('DATA', 301))).toBe('none');
    // Attempts to make the first pass mistake it for DATA.
    const large = `"payload":{"a":"${'x'.repeat(300)}"}`;
    for (const lie of [
      `{"timestamp":1,${large},"type":"DATA","type":"PING"}`,
      `{"timestamp":1,${large},"type":"DATA","typ\\u0065":"PING"}`,
      `{"timestamp":1,${large},"a":{"type":"DATA"},"type":"PING"}`,
      `{"timestamp":1,"type":"PING",${large},"a":["type","DATA"]}`,
    ])
      expect(read(lie)).toBe('message_too_large');
  });

  it('n entries are accepted, n + 1 refused before anything is built, in both envelopes', () => {
    // Four members of the envelope and a list; the other entries are its elements.
    const fill = (entries: number) => envelopeOf('PING', { a: new Array(entries - 5).fill(0) });
    const max = MAX_CONTROL_ENTRIES;
    expect(errorCode(() => decodeControl(encodeMap(fill(max))))).toBe('none');
    expect(errorCode(() => decodeControl(encodeMap(fill(max + 1))))).toBe('message_too_large');
    expect(errorCode(() => decodeControlJson(JSON.stringify(fill(max))))).toBe('none');
    expect(errorCode(() => decodeControlJson(JSON.stringify(fill(max + 1))))).toBe('message_too_large');
    const keys = Object.fromEntries(Array.from({ length: 12_000 }, (_, i) => [i.toString(36), 0]));
    expect(errorCode(() => decodeControl(encodeMap(envelopeOf('HELLO', keys)), DEFAULT_LIMITS, 1e6))).toBe(
      'message_too_large',
    );
    const blanks = ' '.repeat(20 * 1024);
    expect(errorCode(() => decodeControlJson(`{"type":"DATA",${blanks}"timestamp":1}`))).toBe(
      'message_too_large',
    );
  });

  it('n levels are accepted, n + 1 refused, in both envelopes', () => {
    expect(errorCode(() => decodeControl(encodeMap(nested(3)), limits))).toBe('none');
    expect(errorCode(() => decodeControl(encodeMap(nested(4)), limits))).toBe('json_too_deep');
    expect(errorCode(() => decodeControlJson(JSON.stringify(nested(3)), limits))).toBe('none');
    expect(errorCode(() => decodeControlJson(JSON.stringify(nested(4)), limits))).toBe('json_too_deep');
  });

  it('a hundred thousand levels do not overflow the stack', () => {
    const deep = Uint8Array.from([0x81, 0xa1, 0x61, ...new Array<number>(60_000).fill(0x91), 0xc0]);
    expect(errorCode(() => decodeControl(deep))).toBe('json_too_deep');
    expect(errorCode(() => decodeControlJson(`{"a":${'['.repeat(100_000)}`))).toBe('json_too_deep');
  });

  it('lists that announce more than they hold are refused before memory is allocated for them', () => {
    const heads = Array.from({ length: 20 }, () => [0xdd, 0x00, 0x00, 0xff, 0x00]).flat();
    const bomb = Uint8Array.from([0x81, 0xa1, 0x61, ...heads, ...new Array<number>(65_400).fill(0)]);
    const before = process.memoryUsage().heapUsed;
    expect(errorCode(() => decodeControl(bomb))).toBe('message_too_large');
    expect(errorCode(() => decodeMap(bomb, 32, 'a map'))).toBe('bad_message');
    // Twenty lists of 65,280 places are 10 MB.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
  });
});

describe('only in MessagePack', () => {
  const PING = encodeControl({ type: 'PING', sessionId: 's', timestamp: 1, payload: {} });

  it.each([
    ['a timestamp', [0xd6, 0xff, 0, 0, 0, 1]],
    ['an extension of an application', [0xd4, 1, 0]],
    ['an empty extension', [0xc7, 0, 1]],
  ])('%s is refused wherever it stands', (_what, value) => {
    const code = errorCode(() => decodeControl(Uint8Array.from([0x81, 0xa1, 0x61, ...value])));
    expect(code).toBe('bad_message');
  });

  it('a __proto__ key is refused', () => {
    const key = [0xa9, ...Buffer.from('__proto__')];
    expect(errorCode(() => decodeMap(Uint8Array.from([0x81, ...key, 0x80]), 32, 'it'))).toBe('bad_message');
  });

  it('a key that is neither text nor a number is refused', () => {
    expect(errorCode(() => decodeMap(Uint8Array.of(0x81, 0xc0, 0x01), 32, 'it'))).toBe('bad_message');
  });

  it('every truncation and every trailing byte is refused', () => {
    for (let length = 0; length < PING.length; length++)
      expect(errorCode(() => decodeControl(PING.subarray(0, length)))).toBe('bad_message');
    expect(errorCode(() => decodeControl(Uint8Array.of(...PING, 0xc0)))).toBe('bad_message');
  });

  it('bytes as content come back unchanged', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (content) => {
        const payload = { algorithm: Algorithm.M2M, content };
        const data = decodeControl(encodeControl({ type: 'DATA', sessionId: 's', timestamp: 1, payload }));
        expect(data).toMatchObject({ payload: { content } });
      }),
    );
  });

  it('arbitrary bytes end in a message or in a ProtocolError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), fc.nat(PING.length), (bytes, at) => {
        for (const input of [bytes, Uint8Array.of(...PING.subarray(0, at), ...bytes)]) {
          try {
            decodeControl(input);
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError);
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it('a value without a MessagePack form is refused with an error code of our own', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 200; i++) deep = [deep];
    for (const value of [1n, () => 1, Symbol('s'), deep])
      expect(errorCode(() => encodeMap({ value }))).toBe('invalid_argument');
    expect(decodeMap(encodeMap({ kept: 1, left: undefined }), 32, 'it')).toEqual({ kept: 1 });
  });

  it('an encoder that has failed still encodes the next message', () => {
    errorCode(() => encodeMap({ a: { b: 1n } }));
    expect(encodeControl({ type: 'PING', sessionId: 's', timestamp: 1, payload: {} })).toEqual(PING);
  });
});

describe('only in JSON', () => {
  it('a __proto__ key is an ordinary key and changes no object', () => {
    const hostile = '{"type":"PING","timestamp":1,"payload":{},"__proto__":{"type":"CLOSE","payload":{}}}';
    expect(decodeControlJson(hostile)).toEqual({ type: 'PING', sessionId: null, timestamp: 1, payload: {} });
    const inherited = '{"__proto__":{"type":"PING","timestamp":1,"payload":{}}}';
    expect(errorCode(() => decodeControlJson(inherited))).toBe('bad_message');
    const limits = '{"type":"ACCEPT","session_id":"s","timestamp":1,"payload":{"limits":{"__proto__":1}}}';
    expect(decodeControlJson(limits)).toMatchObject({ payload: { limits: {} } });
    expect(({} as { type?: string }).type).toBeUndefined();
  });

  it('an extension named __proto__ is refused, and no other name shadows anything', () => {
    const hello = (extensions: string) =>
      `{"type":"HELLO","timestamp":1,"payload":{"extensions":${extensions}}}`;
    expect(errorCode(() => decodeControlJson(hello('{"__proto__":"x"}')))).toBe('bad_message');
    const message = decodeControlJson(hello('{"constructor":"x"}'));
    const extensions = (message as { payload: { extensions: object } }).payload.extensions;
    expect(Object.getPrototypeOf(extensions)).toBeNull();
    expect(extensions).toEqual(Object.assign(Object.create(null), { constructor: 'x' }));
  });

  it('text that is not JSON is refused', () => {
    for (const broken of ['', '{', 'PING', '{"type":"PING"}}', "{'type':'PING'}"])
      expect(errorCode(() => decodeControlJson(broken))).toBe('bad_json');
  });

  it('each limit of JSON has its own code', () => {
    const limits = resolveLimits({ maxStringLength: 4, maxArrayLength: 2 });
    expect(errorCode(() => decodeControlJson('{"a":"12345"}', limits))).toBe('string_too_long');
    expect(errorCode(() => decodeControlJson('{"a":[1,2,3]}', limits))).toBe('array_too_long');
  });
});

describe('strings that are not valid text', () => {
  const ping = (bytes: number[]) =>
    Uint8Array.from([
      0x83,
      0xa4,
      0x74,
      0x79,
      0x70,
      0x65,
      0xa0 + bytes.length,
      ...bytes,
      0xa9,
      ...new TextEncoder().encode('timestamp'),
      1,
      0xa7,
      ...new TextEncoder().encode('payload'),
      0x80,
    ]);

  it.each([
    ['bytes that begin no character', [0xff, 0xfe]],
    ['a character that is cut', [0xe2, 0x82]],
    ['an overlong form', [0xc0, 0xaf]],
    ['half of a surrogate pair', [0xed, 0xa0, 0x80]],
  ])('are refused, not mended: %s', (_what, bytes) => {
    expect(() => decodeControl(ping(bytes))).toThrow(expect.objectContaining({ code: 'bad_utf8' }));
  });

  it('are refused when written in both envelopes, and when read as JSON escapes', () => {
    const reject = {
      type: 'REJECT',
      sessionId: null,
      timestamp: 1,
      payload: { code: 'UNKNOWN', message: '\ud800' },
    } as const;
    expect(() => encodeControl(reject)).toThrow(expect.objectContaining({ code: 'lone_surrogate' }));
    expect(() => encodeControlJson(reject)).toThrow(expect.objectContaining({ code: 'lone_surrogate' }));
    expect(() => decodeControlJson('{"type":"PING","timestamp":1,"payload":{"x":"\\ud800"}}')).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/lone_surrogate|bad_json/) }),
    );
  });
});

describe('a byte-order mark', () => {
  const reject = (message: string) =>
    ({ type: 'REJECT', sessionId: null, timestamp: 1, payload: { code: 'UNKNOWN', message } }) as const;

  it('survives, or the message is refused', () => {
    for (const length of [0, 196, 197, 198, 300]) {
      const message = `\ufeff${'x'.repeat(length)}`;
      if (length <= 197)
        expect(decodeControl(encodeControl(reject(message)))).toMatchObject({ payload: { message } });
      else expect(() => encodeControl(reject(message))).toThrow(/byte-order mark/);
      expect(decodeControlJson(encodeControlJson(reject(message)))).toMatchObject({ payload: { message } });
    }
  });
});
