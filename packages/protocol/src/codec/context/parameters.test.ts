import { expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { agreeOnContext, encodeContextParameters, MAX_CONTEXT_PARAMETERS } from './parameters.js';

it('takes the smaller value of each field', () => {
  const small = encodeContextParameters({ maxBytes: 1000, maxMessages: 8 });
  const short = encodeContextParameters({ maxBytes: 5000, maxMessages: 2 });
  const agreed = { maxBytes: 1000, maxMessages: 2 };
  expect(agreeOnContext(small, short)).toEqual(agreed);
  expect(agreeOnContext(short, small)).toEqual(agreed);
});

it('never offers or accepts more than the upper bounds', () => {
  const boundless = encodeContextParameters({ maxBytes: Infinity, maxMessages: Infinity });
  expect(agreeOnContext(boundless, boundless)).toEqual(MAX_CONTEXT_PARAMETERS);
  const huge = JSON.stringify({ max_bytes: 2 ** 50, max_messages: 2 ** 50 });
  expect(agreeOnContext(huge, huge)).toEqual(MAX_CONTEXT_PARAMETERS);
  expect(agreeOnContext(huge, encodeContextParameters({ maxBytes: 0, maxMessages: 0 }))).toEqual({
    maxBytes: 0,
    maxMessages: 0,
  });
});

it.each([
  '',
  '[]',
  'null',
  '7',
  '{"max_bytes":1}',
  '{"max_bytes":-1,"max_messages":1}',
  '{"max_bytes":1.5,"max_messages":1}',
  '{"max_bytes":"1","max_messages":1}',
])('refuses %s', (malformed) => {
  const fine = encodeContextParameters({ maxBytes: 1, maxMessages: 1 });
  expect(errorCode(() => agreeOnContext(fine, malformed))).toBe('bad_message');
});
