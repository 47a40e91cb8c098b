import { expect, it } from 'vitest';
import { CLOSE_CODES } from './close-code-meanings.js';
import { CloseCode, isConnectionLoss, isRetryableCloseCode } from './close-codes.js';

it('rows have names and unique codes in ascending order', () => {
  const codes = CLOSE_CODES.map(({ code }) => code);
  expect(codes).toEqual([...new Set(codes)].sort((a, b) => a - b));
  expect(Object.fromEntries(CLOSE_CODES.map(({ name, code }) => [name, code]))).toEqual(CloseCode);
  for (const { meaning } of CLOSE_CODES) expect(meaning).not.toBe('');
});

it('the codes are those of the protocol document', () => {
  expect(CloseCode).toMatchObject({
    BAD_FRAME: 4400,
    UNAUTHENTICATED: 4401,
    FORBIDDEN: 4403,
    TIMEOUT: 4408,
    TAKEN_OVER: 4409,
    STALE_ATTEMPT: 4410,
    TOO_LARGE: 4413,
    RATE_LIMITED: 4429,
    INTERNAL: 4500,
    DRAINING: 4503,
  });
});

it('a client may reconnect only after a lost connection or an overloaded or restarting server', () => {
  const retryable = [];
  for (let code = 1000; code < 5000; code++) if (isRetryableCloseCode(code)) retryable.push(code);
  expect(retryable).toEqual([1001, 1005, 1006, 1011, 1012, 1013, 1014, 4408, 4429, 4500, 4503]);
});

it('a session survives the loss of its connection, but not a close by the peer', () => {
  const losses = [];
  for (let code = 1000; code < 5000; code++) if (isConnectionLoss(code)) losses.push(code);
  expect(losses).toEqual([1001, 1005, 1006, 1011, 1012, 1013, 1014, 4408]);
});
