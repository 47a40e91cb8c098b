import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ANSWER_MS, answerOf } from './ask.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const { signal } = new AbortController();

it('waits for a function of the application no longer than it may take', async () => {
  let resolve = (_: string): void => {};
  const inTime = new Promise<string>((given) => {
    resolve = given;
  });
  const answers = [inTime, new Promise<string>(() => {})].map((each) => answerOf(each, signal));
  const settled = Promise.allSettled(answers);
  await vi.advanceTimersByTimeAsync(ANSWER_MS - 1);
  resolve('in time');
  await vi.advanceTimersByTimeAsync(1);
  expect(await settled).toMatchObject([{ value: 'in time' }, { reason: { code: 'timeout' } }]);
});

it('passes on an answer and a failure, and leaves no timer', async () => {
  expect(await answerOf('at once', signal)).toBe('at once');
  expect(await answerOf(Promise.resolve('later'), signal)).toBe('later');
  await expect(answerOf(Promise.reject(new Error('none')), signal)).rejects.toThrow('none');
  expect(vi.getTimerCount()).toBe(0);
});

it('ends with the request', async () => {
  const controller = new AbortController();
  const answer = answerOf(new Promise(() => {}), controller.signal);
  controller.abort('cancelled');
  await expect(answer).rejects.toBe('cancelled');
  await expect(answerOf(new Promise(() => {}), controller.signal)).rejects.toBe('cancelled');
  expect(vi.getTimerCount()).toBe(0);
});
