import { expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { agreeOnContext, MAX_CONTEXT_PARAMETERS, stateContext } from './parameters.js';

it('lets the smaller statement win, field by field', () => {
  const small = stateContext({ maxBytes: 1000, maxMessages: 8 });
  const short = stateContext({ maxBytes: 5000, maxMessages: 2 });
  const agreed = { maxBytes: 1000, maxMessages: 2 };
  expect(agreeOnContext(small, short)).toEqual(agreed);
  expect(agreeOnContext(short, small)).toEqual(agreed);
});

it('states and accepts no more than anybody keeps', () => {
  const boundless = stateContext({ maxBytes: Infinity, maxMessages: Infinity });
  expect(agreeOnContext(boundless, boundless)).toEqual(MAX_CONTEXT_PARAMETERS);
  const huge = JSON.stringify({ max_bytes: 2 ** 50, max_messages: 2 ** 50 });
  expect(agreeOnContext(huge, huge)).toEqual(MAX_CONTEXT_PARAMETERS);
  expect(agreeOnContext(huge, stateContext({ maxBytes: 0, maxMessages: 0 }))).toEqual({
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
])('refuses %s', (stated) => {
  const fine = stateContext({ maxBytes: 1, maxMessages: 1 });
  expect(errorCode(() => agreeOnContext(fine, stated))).toBe('bad_message');
});
