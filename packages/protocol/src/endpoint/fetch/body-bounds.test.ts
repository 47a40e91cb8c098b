import { expect, it } from 'vitest';
import { BodyBounds, SLICE } from './body-bounds.js';

const type = 'multipart/form-data; boundary=b';

/** Bounds of a form, and how often they have let others work. */
function watched(signal = new AbortController().signal) {
  const turns: (() => void)[] = [];
  const rest = () => new Promise<void>((resolve) => turns.push(resolve));
  return { bounds: new BodyBounds({ most: 8 * SLICE, type, signal, rest }), turns };
}

it('lets others work between two slices of a form', async () => {
  const { bounds, turns } = watched();
  await bounds.checkForm(new Uint8Array(SLICE));
  expect(turns).toHaveLength(0);
  const checking = bounds.checkForm(new Uint8Array(2 * SLICE + 1));
  for (let turn = 0; turn < 2; turn++) {
    expect(turns).toHaveLength(turn + 1);
    turns[turn]?.();
    await Promise.resolve();
  }
  await checking;
  expect(turns).toHaveLength(2);
});

it('stops between two slices if the body is not read any more', async () => {
  const reading = new AbortController();
  const { bounds, turns } = watched(reading.signal);
  const checking = bounds.checkForm(new Uint8Array(3 * SLICE));
  reading.abort(new Error('cancelled'));
  turns[0]?.();
  await expect(checking).rejects.toThrow('cancelled');
  expect(turns).toHaveLength(1);
});
