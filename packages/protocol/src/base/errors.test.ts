import { describe, expect, it } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import { CLOSE_CODES } from './close-code-meanings.js';

import {
  ERROR_CODES,
  type ErrorCode,
  isProtocolError,
  ProtocolError,
  RequestError,
  toProtocolError,
} from './errors.js';

describe('ProtocolError', () => {
  it('takes its close code and retryability from the table', () => {
    const known = new Set<number>(CLOSE_CODES.map(({ code }) => code));
    for (const [code, { closeCode, retryable }] of Object.entries(ERROR_CODES)) {
      expect(new ProtocolError(code as ErrorCode, 'why')).toMatchObject({
        name: 'ProtocolError',
        message: 'why',
        side: 'local',
        code,
        closeCode,
        retryable,
      });
      expect(known).toContain(closeCode);
    }
  });

  it('takes options over the table, even if they are false or zero', () => {
    const cause = new Error('deep down');
    const options = { side: 'remote', cause, retryable: false, retryAfterMs: 0, closeCode: 4321 } as const;
    expect(new ProtocolError('timeout', 'late', options)).toMatchObject(options);
    expect('cause' in new ProtocolError('timeout', 'late')).toBe(false);
  });

  it.each(['constructor', '__proto__', 'toString'])(
    'does not look up %s on the prototype of the table',
    (code) => {
      expect(new ProtocolError<string>(code, 'odd')).toMatchObject({
        code,
        closeCode: 1000,
        retryable: false,
      });
    },
  );

  it('is distinguished from foreign errors, which are wrapped with their cause', () => {
    const own = new RequestError('mine', 'stays');
    const foreign = new TypeError('foreign');
    expect([own, new ProtocolError('timeout', ''), foreign, undefined].map(isProtocolError)).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect(toProtocolError(own, 'internal', 'x')).toBe(own);
    expect(toProtocolError(foreign, 'bad_json', 'x')).toMatchObject({ code: 'bad_json', cause: foreign });
  });
});

describe('RequestError', () => {
  it("carries the application's code and data", () => {
    const error = new RequestError('no_such_model', 'x is not here', { data: { model: 'x' } });
    expect(error).toMatchObject({ name: 'RequestError', code: 'no_such_model', data: { model: 'x' } });
    expect(error).toBeInstanceOf(ProtocolError);
  });

  it.each([
    ['a', 'none'],
    ['a_1'.repeat(21), 'none'],
    ['a'.repeat(64), 'none'],
    ['a'.repeat(65), 'invalid_argument'],
    ['', 'invalid_argument'],
    ['Upper', 'invalid_argument'],
    ['a-b', 'invalid_argument'],
    ['a\n', 'invalid_argument'],
  ])('accepts or refuses the code %j', (code, outcome) => {
    expect(errorCode(() => new RequestError(code, ''))).toBe(outcome);
  });
});
