import { describe, expect, it } from 'vitest';
import { Handshakes } from './handshakes.js';

const connection = (name: string) => ({ name });

describe('handshakes', () => {
  it('are limited to n per address, and the next one replaces the oldest', () => {
    const handshakes = new Handshakes<{ name: string }>(2, Infinity);
    const all = ['a', 'b', 'c'].map(connection);
    expect(all.map((each) => handshakes.add(each, 'x'))).toEqual([undefined, undefined, all[0]]);
    expect(handshakes.add(connection('d'), 'y')).toBeUndefined();
    expect(handshakes.size).toBe(3);
  });

  it('are limited to n in total, from all addresses', () => {
    const handshakes = new Handshakes<{ name: string }>(Infinity, 2);
    const all = ['a', 'b', 'c'].map(connection);
    const evicted = all.map((each, i) => handshakes.add(each, `address ${i}`));
    expect(evicted).toEqual([undefined, undefined, all[0]]);
    expect(handshakes.size).toBe(2);
  });

  it('that are over make room', () => {
    const handshakes = new Handshakes<{ name: string }>(1, Infinity);
    const [first, second] = ['a', 'b'].map(connection) as [{ name: string }, { name: string }];
    handshakes.add(first, 'x');
    handshakes.delete(first);
    handshakes.delete(first);
    expect([handshakes.add(second, 'x'), handshakes.size]).toEqual([undefined, 1]);
  });

  it('that have sent HELLO are not evicted by silent ones', () => {
    const handshakes = new Handshakes<{ name: string }>(3, Infinity);
    const [honest, ...silent] = ['honest', 'a', 'b', 'c', 'd'].map(connection) as { name: string }[];
    handshakes.add(honest as { name: string }, 'x');
    handshakes.handleHello(honest as { name: string });
    expect(silent.map((each) => handshakes.add(each, 'x')?.name)).toEqual([undefined, undefined, 'a', 'b']);
    expect(handshakes.size).toBe(3);
  });

  it.each([
    ['of an address', 2, Infinity],
    ['in all', Infinity, 2],
  ])('that all wait for a decision keep the next one out, %s', (_which, perAddress, max) => {
    const handshakes = new Handshakes<{ name: string }>(perAddress, max);
    const [a, b, late, later] = ['a', 'b', 'late', 'later'].map(connection) as { name: string }[];
    for (const each of [a, b] as { name: string }[]) {
      expect(handshakes.add(each, 'x')).toBeUndefined();
      handshakes.handleHello(each);
    }
    expect(handshakes.add(late as { name: string }, 'x')).toBe(late);
    expect(handshakes.size).toBe(2);
    handshakes.delete(a as { name: string });
    expect(handshakes.add(later as { name: string }, 'x')).toBeUndefined();
    for (const each of [b, late, later] as { name: string }[]) handshakes.delete(each);
    expect(handshakes.size).toBe(0);
  });

  it('limited to one stay limited to one', () => {
    const handshakes = new Handshakes<{ name: string }>(1, 1);
    const all = Array.from({ length: 10 }, (_, i) => connection(String(i)));
    for (const [i, each] of all.entries()) expect(handshakes.add(each, 'x')).toBe(all[i - 1]);
    expect(handshakes.size).toBe(1);
    handshakes.delete(all[9] as { name: string });
    expect(handshakes.size).toBe(0);
  });

  it('allows an address a number of its own', () => {
    const handshakes = new Handshakes<object>(1, 10);
    const all = Array.from({ length: 4 }, () => ({}));
    expect(all.map((each) => handshakes.add(each, 'node a', 3))).toEqual([
      undefined,
      undefined,
      undefined,
      all[0],
    ]);
    expect(handshakes.size).toBe(3);
  });
});
