import { describe, expect, it } from 'vitest';
import { UNKNOWN } from '../engine/logs/logs.js';
import { Followed } from './followed.js';

const recordsOf = (...numbers: number[]) => numbers.map((number) => Uint8Array.of(number));
const NOTHING = { records: [], metadata: undefined, end: undefined };
const numbersAt = (followed: Followed, after: number) =>
  followed.read(after)?.records.map((record) => record[0]);

/** A reply of which parts up to a number were read, and no more were there. */
function current(after: number): Followed {
  const followed = new Followed();
  followed.handleRead(after, NOTHING, followed.changes);
  return followed;
}

describe('a reply that is followed', () => {
  it('has to be read until it was found that there is no more', () => {
    const followed = new Followed();
    expect(followed.read(0)).toBeUndefined();
    followed.handleRead(0, { ...NOTHING, records: recordsOf(1) }, followed.changes);
    expect(followed.read(1)).toBeUndefined();
    followed.handleRead(1, NOTHING, followed.changes);
    expect(followed.read(1)).toEqual(NOTHING);
    expect(followed.read(0)).toBeUndefined();
  });

  it('is told from what is published, which overlaps', () => {
    const followed = current(3);
    followed.handleChanges({ from: 3, records: recordsOf(4, 5) });
    followed.handleChanges({ from: 4, records: recordsOf(5, 6) });
    followed.handleChanges({ from: 3, records: recordsOf(4) });
    expect(numbersAt(followed, 3)).toEqual([4, 5, 6]);
    expect(numbersAt(followed, 5)).toEqual([6]);
    expect(numbersAt(followed, 6)).toEqual([]);
    expect(followed.read(2)).toBeUndefined();
    expect(followed.read(7)).toBeUndefined();
  });

  it('is read where something was not published', () => {
    const followed = current(3);
    followed.handleChanges({ from: 5, records: recordsOf(6) });
    expect(followed.read(3)).toBeUndefined();
    expect(followed.read(4)).toBeUndefined();
    expect(numbersAt(followed, 5)).toEqual([6]);
  });

  it('is read again after something may have been missed, also while it was read', () => {
    const followed = current(3);
    followed.handleChanges(UNKNOWN);
    expect(followed.read(3)).toBeUndefined();
    const { changes } = followed;
    followed.handleChanges(UNKNOWN);
    // The answer may be older than what was missed.
    followed.handleRead(3, NOTHING, changes);
    expect(followed.read(3)).toBeUndefined();
    followed.handleRead(3, NOTHING, followed.changes);
    expect(numbersAt(followed, 3)).toEqual([]);
  });

  it('tells its watchers of all news', () => {
    const followed = current(0);
    let told = 0;
    const watcher = () => void told++;
    followed.add(watcher);
    followed.handleChanges({ from: 0, records: recordsOf(1) });
    followed.handleChanges(UNKNOWN);
    expect(told).toBe(2);
    followed.delete(watcher);
    followed.handleChanges(UNKNOWN);
    expect([told, followed.size]).toEqual([2, 0]);
  });

  it('keeps a bounded part of what was published', () => {
    const followed = current(0);
    const large = () => [new Uint8Array(10_000)];
    for (let from = 0; from < 100; from++) followed.handleChanges({ from, records: large() });
    expect(followed.read(0)).toBeUndefined();
    expect(followed.read(80)).toBeUndefined();
    expect(followed.read(97)?.records).toHaveLength(1);
    expect(followed.last).toBe(100);
  });
});
