import { describe, expect, it } from 'vitest';
import { ProtocolError, RequestError } from '../index.js';
import { failureOf } from './failure.js';

describe('the failure that a component sees', () => {
  it.each([
    [new ProtocolError('timeout', 'late'), 'timeout'],
    [new RequestError('quota', 'used up'), 'quota'],
    [new TypeError('a bug'), 'unknown'],
  ])('is the error itself: %s', (error, code) => {
    expect(failureOf(error)).toEqual({ code, error });
    expect(failureOf(error).error).toBe(error);
  });

  it.each([
    'text',
    undefined,
    null,
    5,
    {
      toString() {
        throw new Error('hostile');
      },
    },
  ])('is an error also if something else was thrown: case %#', (thrown) => {
    const { code, error } = failureOf(thrown);
    expect([code, error instanceof Error, error?.cause]).toEqual(['unknown', true, thrown]);
  });
});
