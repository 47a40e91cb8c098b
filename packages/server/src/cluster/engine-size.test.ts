import { expect, it, vi } from 'vitest';
import { memoryCluster } from '../engine/memory.js';
import type { EngineStore } from '../engine/store.js';
import { EngineSize } from './engine-size.js';

it('the size of an engine is asked once a minute, when it is read', async () => {
  let now = 0;
  const answers: (number | Error)[] = [7, new Error('no answer'), 9];
  const size = vi.fn(async () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer as number;
  });
  const close = vi.fn(async () => {});
  const connectStore = vi.fn(() => ({ size, close }) as never);
  const told = new EngineSize({ ...memoryCluster(), connectStore }, () => now);
  const read = async () => {
    let value = 0;
    for (const figure of told.figures) figure.read((each) => (value = each));
    await Promise.resolve();
    return value;
  };
  expect(connectStore).not.toHaveBeenCalled();
  expect(await read()).toBeNaN();
  now = 59_999;
  expect([await read(), size.mock.calls.length]).toEqual([7, 1]);
  now = 60_000;
  expect([await read(), size.mock.calls.length]).toEqual([7, 2]);
  expect(await read()).toBeNaN();
  now = 120_000;
  await read();
  expect([await read(), size.mock.calls.length, connectStore.mock.calls.length]).toEqual([9, 3, 1]);
  await told.close();
  now = 1e9;
  await read();
  expect([size.mock.calls.length, close.mock.calls.length]).toEqual([3, 1]);
});

it('an engine that throws fails no reading', () => {
  const connectStore = () => {
    throw new Error('out of order');
  };
  const [figure] = new EngineSize({ ...memoryCluster(), connectStore }).figures;
  let told = 0;
  figure?.read((value) => {
    told = value;
  });
  expect(told).toBeNaN();
});

it('an engine that cannot tell has no such figure', () => {
  const { connectStore: _, ...engine } = memoryCluster();
  expect(new EngineSize(engine).figures).toEqual([]);
});

it('asks an engine that never answers once', () => {
  let [now, asked] = [0, 0];
  const connectStore = (): EngineStore => ({
    living: async () => [],
    size() {
      asked++;
      return new Promise<number>(() => {});
    },
    async *exports() {},
    async close() {},
  });
  const [figure] = new EngineSize({ ...memoryCluster(), connectStore }, () => now).figures;
  for (; now < 1e6; now += 61_000) figure?.read(() => {});
  expect(asked).toBe(1);
});
