import { expect, it } from 'vitest';
import { Acknowledgement } from './acknowledgement.js';
import { decodeLinkFrame, LinkKind } from './frame.js';

function create() {
  const sent: number[] = [];
  const acknowledgement = new Acknowledgement({
    pushUncounted(bytes) {
      const { kind, streamId: count, rest } = decodeLinkFrame(bytes);
      expect([kind, rest.length]).toEqual([LinkKind.ACK, 0]);
      sent.push(count);
    },
  });
  return { sent, acknowledgement };
}

it('is sent after 32 frames, and not after 31', () => {
  const { sent, acknowledgement } = create();
  for (let i = 0; i < 31; i++) acknowledgement.handleReceived(1, 0);
  expect(sent).toEqual([]);
  acknowledgement.handleReceived(1, 0);
  expect(sent).toEqual([32]);
  for (let i = 0; i < 32; i++) acknowledgement.handleReceived(1, 0);
  expect(sent).toEqual([32, 64]);
});

it('is sent after 64 KiB, and not one byte before', () => {
  const { sent, acknowledgement } = create();
  acknowledgement.handleReceived(64 * 1024 - 1, 0);
  expect(sent).toEqual([]);
  acknowledgement.handleReceived(1, 0);
  expect(sent).toEqual([2]);
  acknowledgement.handleReceived(64 * 1024, 0);
  expect(sent).toEqual([2, 3]);
});

it('is sent 200 ms after the first frame that is not acknowledged', () => {
  const { sent, acknowledgement } = create();
  expect(acknowledgement.due).toBe(Infinity);
  acknowledgement.handleReceived(1, 1_000);
  acknowledgement.handleReceived(1, 1_150);
  expect(acknowledgement.due).toBe(1_200);
  acknowledgement.handleTimeout(1_199);
  expect(sent).toEqual([]);
  acknowledgement.handleTimeout(1_200);
  expect(sent).toEqual([2]);
  expect(acknowledgement.due).toBe(Infinity);
});

it('goes along with a frame that is written, at most every 100 ms, and only if something is to be acknowledged', () => {
  const { sent, acknowledgement } = create();
  acknowledgement.handleWriting(0);
  expect(sent).toEqual([]);
  acknowledgement.handleReceived(1, 0);
  acknowledgement.handleWriting(0);
  expect([sent, acknowledgement.due]).toEqual([[1], Infinity]);
  acknowledgement.handleReceived(1, 10);
  acknowledgement.handleWriting(99);
  expect([sent, acknowledgement.due]).toEqual([[1], 210]);
  acknowledgement.handleWriting(100);
  expect([sent, acknowledgement.due]).toEqual([[1, 2], Infinity]);
});

it('goes along only as far as it may count', () => {
  const { sent, acknowledgement } = create();
  acknowledgement.raise(1, 0);
  for (let i = 0; i < 3; i++) acknowledgement.handleReceived(1, 0);
  acknowledgement.handleWriting(0);
  acknowledgement.handleWriting(1_000);
  expect(sent).toEqual([1]);
  acknowledgement.raise(3, 1_000);
  acknowledgement.handleWriting(1_000);
  expect(sent).toEqual([1, 3]);
});

it('can be sent at any time, whether or not it is due', () => {
  const { sent, acknowledgement } = create();
  acknowledgement.send();
  acknowledgement.handleReceived(1, 0);
  acknowledgement.send();
  expect(sent).toEqual([0, 1]);
  expect(acknowledgement.due).toBe(Infinity);
});
