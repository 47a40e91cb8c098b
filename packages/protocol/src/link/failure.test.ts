import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProtocolError, RequestError } from '../base/errors.js';
import { encodeMap } from '../control/maps.js';
import { errorCode } from '../testing/error-code.js';
import { decodeFailure, encodeFailure } from './failure.js';

const sent = (error: unknown) => decodeFailure(encodeFailure(error), 32);
const OWN = [
  'internal',
  'cancelled',
  'unsupported',
  'rate_limited',
  'draining',
  'too_many_streams',
  'timeout',
];

describe('an error of a handler', () => {
  it('arrives with its code, message and data if it is a RequestError', () => {
    const error = fc.record({
      code: fc.stringMatching(/^[a-z0-9_]{1,64}$/),
      message: fc.string({ unit: 'grapheme', maxLength: 60 }),
      data: fc.option(fc.jsonValue({ maxDepth: 3 }), { nil: undefined }),
      retryable: fc.boolean(),
      retryAfterMs: fc.option(fc.nat(), { nil: undefined }),
    });
    fc.assert(
      fc.property(error, ({ code, message, data, ...options }) => {
        const received = sent(new RequestError(code, message, { data, ...options }));
        expect(received).toBeInstanceOf(RequestError);
        expect(received).toMatchObject({ code, message, side: 'remote', ...options });
        expect(JSON.stringify((received as RequestError).data)).toBe(JSON.stringify(data));
      }),
      { numRuns: 300 },
    );
  });

  it.each(OWN)('arrives as %s with its message if it is an error of Parlance itself', (code) => {
    const error = new ProtocolError(code as never, 'why', { retryAfterMs: 250 });
    const received = sent(error);
    expect(received).not.toBeInstanceOf(RequestError);
    expect(received).toMatchObject({ code, message: 'why', side: 'remote', retryAfterMs: 250 });
    expect(received.retryable).toBe(error.retryable);
  });

  it.each([
    new Error('password is hunter2'),
    new TypeError('password is hunter2'),
    new ProtocolError('bad_json', 'password is hunter2'),
    new ProtocolError('session_lost', 'password is hunter2', { cause: 'hunter2' }),
    'password is hunter2',
    { code: 'mine', message: 'password is hunter2' },
    undefined,
    null,
  ])('reveals only that the handler failed if it is anything else: %s', (error) => {
    expect(sent(error)).toMatchObject({
      code: 'internal',
      message: expect.stringMatching(/^the handler failed; see the log/),
      side: 'remote',
    });
    expect(Buffer.from(encodeFailure(error)).toString('latin1')).not.toContain('hunter2');
  });

  it('is cut to 1024 characters of message', () => {
    for (const error of [
      new RequestError('mine', 'm'.repeat(1_025)),
      new ProtocolError('timeout', 'm'.repeat(1_025)),
    ])
      expect(sent(error).message).toBe('m'.repeat(1_024));
  });

  it('arrives with data of 8 KiB, and without data that is larger', () => {
    const data = (length: number) =>
      (sent(new RequestError('mine', '', { data: 'x'.repeat(length) })) as RequestError).data;
    expect(data(8 * 1_024 - 2)).toHaveLength(8 * 1_024 - 2);
    expect(data(8 * 1_024 - 1)).toBeUndefined();
  });

  it('never makes a frame that the receiver refuses, for any characters', () => {
    for (const character of ['漢', '\u{1f600}', '"', '\0']) {
      const [message, data] = [character.repeat(1_000), character.repeat(8_000)];
      expect(sent(new RequestError('mine', message, { data }))).toMatchObject({
        code: 'mine',
        data: undefined,
      });
      expect(message.startsWith(sent(new ProtocolError('timeout', message)).message)).toBe(true);
      expect((sent(new RequestError('mine', '', { data: character.repeat(500) })) as RequestError).data).toBe(
        character.repeat(500),
      );
    }
  });

  it('arrives without data that JSON cannot carry', () => {
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    for (const data of [cyclic, 1n, () => 1, Symbol('s')])
      expect(sent(new RequestError('mine', 'why', { data }))).toMatchObject({
        code: 'mine',
        message: 'why',
        data: undefined,
      });
  });

  it.each(OWN)('may be an error of the application with the code %s', (code) => {
    const received = sent(new RequestError(code, 'why', { data: { limit: 5 }, retryable: false }));
    expect(received).toBeInstanceOf(RequestError);
    expect(received).toMatchObject({ code, message: 'why', data: { limit: 5 }, retryable: false });
  });

  it('distinguishes null from no data', () => {
    expect((sent(new RequestError('mine', '', { data: null })) as RequestError).data).toBeNull();
    expect((sent(new RequestError('mine', '')) as RequestError).data).toBeUndefined();
  });
});

describe('an error frame', () => {
  const read = (fields: Record<string, unknown>) => decodeFailure(encodeMap(fields), 32);

  it.each([
    ['no code', {}],
    ['a code of a wrong type', { code: 1 }],
    ['an invalid code', { code: 'Not A Code' }],
    ['an empty code', { code: '' }],
    ['a long code', { code: 'a'.repeat(65) }],
    ['data that is not JSON', { code: 'mine', data: '{' }],
  ])('with %s is refused', (_what, fields) => {
    expect(errorCode(() => read(fields))).toBe('bad_message');
  });

  it.each([
    ['nothing', []],
    ['a list', [0x90]],
    ['half a map', [0x82, 0xa1, 0x61]],
    ['a map and more', [...encodeMap({ code: 'mine' }), 0]],
  ])('that holds %s is refused', (_what, bytes) => {
    expect(errorCode(() => decodeFailure(Uint8Array.from(bytes), 32))).toBe('bad_message');
  });

  it('of 16 KiB is read, and of one byte more refused without being decoded', () => {
    const fill = (length: number) => encodeMap({ code: 'mine', fill: 'x'.repeat(length) });
    const length = 16 * 1_024 - fill(1_000).length + 1_000;
    expect(fill(length)).toHaveLength(16 * 1_024);
    expect(decodeFailure(fill(length), 32).code).toBe('mine');
    expect(errorCode(() => decodeFailure(fill(length + 1), 32))).toBe('message_too_large');
    expect(errorCode(() => decodeFailure(new Uint8Array(16 * 1_024 + 1), 32))).toBe('message_too_large');
  });

  it('must keep the depth limit', () => {
    const fields = encodeMap({ code: 'mine', a: { b: {} } });
    expect(errorCode(() => decodeFailure(fields, 3))).toBe('none');
    expect(errorCode(() => decodeFailure(fields, 2))).toBe('json_too_deep');
  });

  it('needs only a code, and ignores fields of a wrong type', () => {
    expect(read({ code: 'mine' })).toMatchObject({ message: 'mine', retryable: false, data: undefined });
    const odd = read({ code: 'mine', message: 5, retry_after_ms: -1, retryable: 'yes', data: { a: 1 } });
    expect(odd).toMatchObject({
      message: 'mine',
      retryAfterMs: undefined,
      retryable: false,
      data: undefined,
    });
  });
});
