import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { ServicePlaces } from './service-places.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

it('connections of one node have so many places, and the oldest one gives way', async () => {
  const places = new ServicePlaces({ ofNode: 2, ofAll: 10 });
  const [first, second, third, other] = Array.from({ length: 4 }, () => new PassThrough()) as [
    PassThrough,
    PassThrough,
    PassThrough,
    PassThrough,
  ];
  expect([places.tryTake('a', first), places.tryTake('a', second)]).toEqual([true, true]);
  expect([places.tryTake('b', other), first.destroyed]).toEqual([true, false]);
  expect([places.tryTake('a', third), first.destroyed, second.destroyed]).toEqual([true, true, false]);
  await tick();
  expect(places.size).toBe(3);
});

it('connections of all nodes have so many places, and one that closes gives its place back', async () => {
  const places = new ServicePlaces({ ofNode: 2, ofAll: 2 });
  const sockets = Array.from({ length: 3 }, () => new PassThrough());
  expect(sockets.map((socket, i) => places.tryTake(`node ${i}`, socket))).toEqual([true, true, false]);
  expect(places.size).toBe(2);
  sockets[0]?.destroy();
  await tick();
  expect(places.tryTake('node 3', new PassThrough())).toBe(true);
});
