import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { gather } from './gathering.js';

/** Messages in the time of a frame in which others came, which a page handles together. */

const page = { hidden: false };
let got: number[] = [];
let socket: WebSocket;

beforeAll(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
  vi.stubGlobal('document', page);
});
beforeEach(() => {
  page.hidden = false;
  got = [];
  const target = new EventTarget();
  // As `CuttableSocket` does it.
  for (const type of ['message', 'close']) target.addEventListener(type, (event) => gather(socket, event));
  target.addEventListener('message', (event) => got.push((event as MessageEvent<number>).data));
  target.addEventListener('close', () => got.push(-1));
  socket = target as WebSocket;
  vi.advanceTimersByTime(1_000);
});
afterAll(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Dispatches a trusted event, as a browser does. */
function emit(type: 'message' | 'close', data?: number): void {
  const event = type === 'message' ? new MessageEvent(type, { data }) : new Event(type);
  Object.defineProperty(event, 'isTrusted', { value: true });
  socket.dispatchEvent(event);
}

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

it('are handled after a pause at once, and else in order at the end of the frame', () => {
  for (const n of [1, 2, 3]) emit('message', n);
  expect(got).toEqual([1]);
  vi.advanceTimersByTime(15);
  expect(got).toEqual([1]);
  vi.advanceTimersByTime(1);
  expect(got).toEqual([1, 2, 3]);
  emit('message', 4);
  expect(got).toEqual([1, 2, 3]);
  vi.advanceTimersByTime(16);
  expect(got).toEqual([1, 2, 3, 4]);
  vi.advanceTimersByTime(16);
  emit('message', 5);
  expect(got).toEqual([1, 2, 3, 4, 5]);
});

it('are handled 128 at a time, and those that come meanwhile after them', () => {
  for (const n of numbers(0, 300)) emit('message', n);
  vi.advanceTimersByTime(16);
  expect(got).toEqual(numbers(0, 128));
  emit('message', 301);
  vi.advanceTimersByTime(16);
  expect(got).toEqual(numbers(0, 256));
  vi.advanceTimersByTime(16);
  expect(got).toEqual(numbers(0, 301));
});

it('are all handled before a close', () => {
  for (const n of numbers(0, 300)) emit('message', n);
  emit('close');
  expect(got).toEqual([...numbers(0, 300), -1]);
});

it('are handled at once in a hidden page, after those that it held', () => {
  for (const n of numbers(0, 300)) emit('message', n);
  page.hidden = true;
  emit('message', 301);
  vi.advanceTimersByTime(16);
  expect(got).toEqual(numbers(0, 301));
  for (const n of numbers(302, 400)) emit('message', n);
  expect(got).toEqual(numbers(0, 400));
});
