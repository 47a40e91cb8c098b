import { expect, it } from 'vitest';
import { Acknowledgement } from './acknowledgement.js';

function create() {
  const stated: number[] = [];
  return { stated, acknowledgement: new Acknowledgement({ acknowledge: (count) => stated.push(count) }) };
}

it('comes after 32 frames, and not after 31', () => {
  const { stated, acknowledgement } = create();
  for (let i = 0; i < 31; i++) acknowledgement.handleReceived(1, 0);
  expect(stated).toEqual([]);
  acknowledgement.handleReceived(1, 0);
  expect(stated).toEqual([32]);
  for (let i = 0; i < 32; i++) acknowledgement.handleReceived(1, 0);
  expect(stated).toEqual([32, 64]);
});

it('comes after 64 KiB, and not one byte before', () => {
  const { stated, acknowledgement } = create();
  acknowledgement.handleReceived(64 * 1024 - 1, 0);
  expect(stated).toEqual([]);
  acknowledgement.handleReceived(1, 0);
  expect(stated).toEqual([2]);
  acknowledgement.handleReceived(64 * 1024, 0);
  expect(stated).toEqual([2, 3]);
});

it('comes 200 ms after the first frame that is not acknowledged', () => {
  const { stated, acknowledgement } = create();
  expect(acknowledgement.due).toBe(Infinity);
  acknowledgement.handleReceived(1, 1_000);
  acknowledgement.handleReceived(1, 1_150);
  expect(acknowledgement.due).toBe(1_200);
  acknowledgement.handleTimeout(1_199);
  expect(stated).toEqual([]);
  acknowledgement.handleTimeout(1_200);
  expect(stated).toEqual([2]);
  expect(acknowledgement.due).toBe(Infinity);
});

it('is stated anew on demand, whether anything is due or not', () => {
  const { stated, acknowledgement } = create();
  acknowledgement.restate();
  acknowledgement.handleReceived(1, 0);
  acknowledgement.restate();
  expect(stated).toEqual([0, 1]);
  expect(acknowledgement.due).toBe(Infinity);
});
