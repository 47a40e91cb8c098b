import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Fifo } from './fifo.js';

type Step =
  | { readonly push: number }
  | { readonly unshift: number }
  | 'shift'
  | 'replace'
  | { readonly delete: number };

describe('a queue', () => {
  it('behaves like an array that is pushed to and shifted from', () => {
    const item = fc.nat(20);
    const step: fc.Arbitrary<Step> = fc.oneof(
      { weight: 12, arbitrary: fc.record({ push: item }) },
      { weight: 8, arbitrary: fc.constant<Step>('shift') },
      { weight: 2, arbitrary: fc.record({ unshift: item }) },
      fc.constant<Step>('replace'),
      fc.record({ delete: item }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const queue = new Fifo<number>();
        let model: number[] = [];
        for (const each of steps) {
          if (each === 'shift') expect(queue.shift()).toBe(model.shift());
          else if (each === 'replace') {
            queue.replaceFirst(99);
            if (model.length > 0) model[0] = 99;
          } else if ('unshift' in each) {
            queue.unshift(each.unshift);
            model.unshift(each.unshift);
          } else if ('push' in each) {
            queue.push(each.push);
            model.push(each.push);
          } else {
            queue.delete(each.delete);
            model = model.filter((other) => other !== each.delete);
          }
          expect([queue.size, queue.first, queue.last]).toEqual([model.length, model[0], model.at(-1)]);
          expect([...queue]).toEqual(model);
        }
      }),
    );
  });

  it('is empty after clear() and can be used again', () => {
    const queue = new Fifo<number>();
    for (let i = 0; i < 100; i++) queue.push(i);
    queue.clear();
    expect([queue.size, queue.first, queue.shift()]).toEqual([0, undefined, undefined]);
    queue.push(1);
    expect([...queue]).toEqual([1]);
  });

  it('keeps its order when it grows while wrapped around', () => {
    const queue = new Fifo<number>();
    for (let i = 0; i < 3; i++) queue.push(i);
    queue.shift();
    queue.shift();
    for (let i = 3; i < 200; i++) queue.push(i);
    expect([...queue]).toEqual(Array.from({ length: 198 }, (_, i) => i + 2));
  });
});
