import { describe, expect, it } from 'vitest';
import { ProtocolError, RequestError } from '../base/errors.js';
import { loggable } from './loggable.js';

const thrownBy = (task: () => unknown): unknown => {
  try {
    task();
  } catch (error) {
    return error;
  }
  throw new Error('it did not throw');
};

describe('an error in a log', () => {
  it('has its type and place, and quotes no input', () => {
    const secret = 'canary text';
    for (const error of [
      thrownBy(() => JSON.parse(secret)),
      new TypeError(`cannot use ${secret}\n    at ${secret} (and more of it)\n`),
      new RequestError('mine', secret),
      new Error(secret, { cause: new Error(secret, { cause: secret }) }),
      secret,
      { message: secret },
    ]) {
      expect(JSON.stringify(loggable(error))).not.toContain('canary');
    }
    const logged = loggable(new RangeError('x'));
    expect(logged.type).toBe('RangeError');
    expect(logged.at[0]).toMatch(/^at .*loggable\.test\.ts:\d+/);
    expect(logged).not.toHaveProperty('message');
  });

  it('has the messages of our own errors, with their causes', () => {
    const cause = new SyntaxError('Unexpected token in "secret"');
    const logged = loggable(new ProtocolError('bad_json', '9 characters are not valid JSON', { cause }));
    expect(logged).toMatchObject({
      type: 'ProtocolError',
      code: 'bad_json',
      message: '9 characters are not valid JSON',
      cause: { type: 'SyntaxError' },
    });
    expect(JSON.stringify(logged)).not.toContain('secret');
    expect(loggable(new RequestError('no_such_model', 'x'))).toMatchObject({ code: 'no_such_model' });
  });

  it('is finite even if an error is its own cause', () => {
    const error = new Error('a') as Error & { cause?: unknown };
    error.cause = error;
    expect(JSON.stringify(loggable(error)).length).toBeLessThan(10_000);
  });
});
