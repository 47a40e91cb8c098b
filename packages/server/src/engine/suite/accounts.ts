import { same } from './asserts.js';
import type { Tests } from './world.js';

const capacity = (bytes: number, maxBytes = 100, ttlMs = 60_000) => ({ bytes, maxBytes, ttlMs });

export const accountTests: Tests = {
  async 'the sessions of one principal get as many bytes as they may have, exactly'({ connect }) {
    const [a, b] = [connect(), connect()];
    same(await a.reserveCapacity('ada', 'one', capacity(60)), 60);
    same(await b.reserveCapacity('ada', 'two', capacity(41)), undefined);
    same(await b.reserveCapacity('ada', 'two', capacity(40)), 40);
    same(await a.reserveCapacity('ada', 'one', capacity(61)), undefined);
    // A session keeps what it has, and others have their own.
    same(await b.reserveCapacity('ada', 'one', capacity(10)), 60);
    same(await a.reserveCapacity('ada:one', 'one', capacity(100)), 100);
    await a.releaseCapacity('ada', 'two');
    await a.releaseCapacity('ada', 'two');
    same(await a.reserveCapacity('ada', 'one', capacity(100)), 100);
    same(await b.reserveCapacity('ada', 'two', capacity(1)), undefined);
  },

  async 'bytes are given back, also when their time is over'({ connect, eventually }) {
    const [a, b] = [connect(), connect()];
    same(await a.reserveCapacity('ada', 'one', capacity(100)), 100);
    await b.releaseCapacity('ada', 'one');
    same(await b.reserveCapacity('ada', 'two', capacity(100, 100, 30)), 100);
    await eventually(
      () => a.reserveCapacity('ada', 'one', capacity(100)),
      (bytes) => same(bytes, 100),
    );
  },

  async 'sessions that reserve at once do not get more than one after the other'({ connect }) {
    const links = [connect(), connect(), connect(), connect()];
    const all = await Promise.all(
      Array.from({ length: 24 }, (_, i) =>
        links[i % links.length]?.reserveCapacity('ada', `sess_${i}`, capacity(10, 99)),
      ),
    );
    same(all.filter((bytes) => bytes === 10).length, 9);
    same(all.filter((bytes) => bytes === undefined).length, 15);
    same(await links[0]?.reserveCapacity('ada', 'last', capacity(9, 99)), 9);
  },
};
