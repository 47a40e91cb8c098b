import { same } from './asserts.js';
import type { Tests } from './world.js';

const room = (bytes: number, maxBytes = 100, ttlMs = 60_000) => ({ bytes, maxBytes, ttlMs });

export const accountTests: Tests = {
  async 'the sessions of one principal get as many bytes as they may have, exactly'({ connect }) {
    const [a, b] = [connect(), connect()];
    same(await a.reserveRoom('ada', 'one', room(60)), 60);
    same(await b.reserveRoom('ada', 'two', room(41)), undefined);
    same(await b.reserveRoom('ada', 'two', room(40)), 40);
    same(await a.reserveRoom('ada', 'one', room(61)), undefined);
    // A session keeps what it has, and others have their own.
    same(await b.reserveRoom('ada', 'one', room(10)), 60);
    same(await a.reserveRoom('ada:one', 'one', room(100)), 100);
    await a.releaseRoom('ada', 'two');
    await a.releaseRoom('ada', 'two');
    same(await a.reserveRoom('ada', 'one', room(100)), 100);
    same(await b.reserveRoom('ada', 'two', room(1)), undefined);
  },

  async 'bytes are given back, also when their time is over'({ connect, eventually }) {
    const [a, b] = [connect(), connect()];
    same(await a.reserveRoom('ada', 'one', room(100)), 100);
    await b.releaseRoom('ada', 'one');
    same(await b.reserveRoom('ada', 'two', room(100, 100, 30)), 100);
    await eventually(
      () => a.reserveRoom('ada', 'one', room(100)),
      (bytes) => same(bytes, 100),
    );
  },

  async 'sessions that reserve at once do not get more than one after the other'({ connect }) {
    const links = [connect(), connect(), connect(), connect()];
    const all = await Promise.all(
      Array.from({ length: 24 }, (_, i) =>
        links[i % links.length]?.reserveRoom('ada', `sess_${i}`, room(10, 99)),
      ),
    );
    same(all.filter((bytes) => bytes === 10).length, 9);
    same(all.filter((bytes) => bytes === undefined).length, 15);
    same(await links[0]?.reserveRoom('ada', 'last', room(9, 99)), 9);
  },
};
