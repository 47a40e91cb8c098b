import { expect, it } from 'vitest';
import { paced } from './paced.js';

function setUp() {
  const made: ((text: string) => void)[] = [];
  const world = { now: 0, made, fails: [] as ((error: Error) => void)[] };
  const make = () =>
    new Promise<string>((resolve, reject) => {
      made.push(resolve);
      world.fails.push(reject);
    });
  return { world, read: paced(make, { now: () => world.now }) };
}

it('makes a text once for all who ask while it is made', async () => {
  const { world, read } = setUp();
  const texts = [read(), read()];
  world.now = 50;
  texts.push(read());
  world.made[0]?.('a');
  expect(await Promise.all(texts)).toEqual(['a', 'a', 'a']);
  expect(world.made).toHaveLength(1);
});

it('makes the next one when the last one has taken a tenth of the time', async () => {
  const { world, read } = setUp();
  const first = read();
  world.now = 10;
  world.made[0]?.('a');
  await first;
  world.now = 99.9;
  expect(await read()).toBe('a');
  world.now = 100;
  const second = read();
  world.made[1]?.('b');
  expect(await second).toBe('b');
});

it('tries again after a failure, at the same pace', async () => {
  const { world, read } = setUp();
  const first = read();
  world.now = 1;
  world.fails[0]?.(new Error('no figures'));
  await expect(first).rejects.toThrow('no figures');
  await expect(read()).rejects.toThrow('no figures');
  world.now = 10;
  const second = read();
  world.made[1]?.('b');
  expect(await second).toBe('b');
});
