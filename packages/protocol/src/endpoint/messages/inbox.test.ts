import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { Inbox } from './inbox.js';

const read = async <T>(inbox: Inbox<T>): Promise<T[]> => {
  const items = [];
  for await (const item of inbox) items.push(item);
  return items;
};
const next = <T>(iterator: AsyncIterator<T>) => iterator.next();

describe('an inbox', () => {
  it('returns items in order, pushed before or after the reader came', async () => {
    const inbox = new Inbox<number>();
    inbox.push(1);
    inbox.push(2);
    const all = read(inbox);
    inbox.push(3);
    await Promise.resolve();
    inbox.push(4);
    inbox.end();
    expect(await all).toEqual([1, 2, 3, 4]);
  });

  it('keeps all items in order, however pushes and reads are mixed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: -400, max: 400 }), { maxLength: 12 }), async (steps) => {
        const inbox = new Inbox<number>();
        const iterator = inbox[Symbol.asyncIterator]();
        let pushed = 0;
        let taken = 0;
        for (const step of steps) {
          if (step > 0) for (let i = 0; i < step; i++) inbox.push(pushed++);
          else
            for (let i = 0; i > step && taken < pushed; i--)
              expect(await next(iterator)).toEqual({ value: taken++, done: false });
          expect(inbox.size).toBe(pushed - taken);
        }
        inbox.end();
        while (taken < pushed) expect((await next(iterator)).value).toBe(taken++);
        expect(await next(iterator)).toEqual({ value: undefined, done: true });
      }),
      { numRuns: 50 },
    );
  });

  it('throws its error after the items before it, to each reader', async () => {
    const inbox = new Inbox<string>();
    inbox.push('a');
    inbox.end(new Error('lost'));
    inbox.end();
    inbox.push('late');
    const iterator = inbox[Symbol.asyncIterator]();
    expect((await next(iterator)).value).toBe('a');
    await expect(next(iterator)).rejects.toThrow('lost');
    await expect(read(inbox)).rejects.toThrow('lost');
  });

  it('wakes a waiting reader with an item, the end or the error', async () => {
    const endings: ((inbox: Inbox<string>) => void)[] = [
      (inbox) => inbox.push('x'),
      (inbox) => inbox.end(),
      (inbox) => inbox.end(new Error('lost')),
    ];
    const outcomes = endings.map((end) => {
      const inbox = new Inbox<string>();
      const waiting = next(inbox[Symbol.asyncIterator]());
      end(inbox);
      return waiting.catch((error: Error) => error.message);
    });
    expect(await Promise.all(outcomes)).toEqual([
      { value: 'x', done: false },
      { value: undefined, done: true },
      'lost',
    ]);
  });

  it('has one reader at a time, and another after it left or reached the end', async () => {
    const inbox = new Inbox<number>();
    for (let i = 0; i < 4; i++) inbox.push(i);
    for await (const item of inbox) {
      expect(errorCode(() => inbox[Symbol.asyncIterator]())).toBe('invalid_argument');
      if (item === 1) break;
    }
    const iterator = inbox[Symbol.asyncIterator]();
    expect((await next(iterator)).value).toBe(2);
    await iterator.return?.();
    inbox.end();
    expect(await read(inbox)).toEqual([3]);
    expect(await read(inbox)).toEqual([]);
  });

  it('allows one next() at a time', async () => {
    const inbox = new Inbox<number>();
    const iterator = inbox[Symbol.asyncIterator]();
    const first = next(iterator);
    await expect(next(iterator)).rejects.toMatchObject({ code: 'invalid_argument' });
    inbox.push(1);
    expect(await first).toEqual({ value: 1, done: false });
  });

  it('releases a waiting reader that leaves, and reports it', async () => {
    let released = 0;
    const inbox = new Inbox<number>({ onRelease: () => released++ });
    const iterator = inbox[Symbol.asyncIterator]();
    const waiting = next(iterator);
    expect(await iterator.return?.()).toEqual({ value: undefined, done: true });
    expect(await waiting).toEqual({ value: undefined, done: true });
    expect(released).toBe(1);
    // Later items are for the next reader.
    inbox.push(5);
    inbox.end();
    expect(await read(inbox)).toEqual([5]);
    expect(released).toBe(1);
  });

  it('reports each item once, when it is taken or dropped', async () => {
    const taken: number[] = [];
    const inbox = new Inbox<number>({ onTake: (item) => taken.push(item) });
    for (const item of [1, 2, 3]) inbox.push(item);
    expect(taken).toEqual([]);
    const iterator = inbox[Symbol.asyncIterator]();
    await next(iterator);
    expect(taken).toEqual([1]);
    inbox.clear();
    expect([taken, inbox.size]).toEqual([[1, 2, 3], 0]);
    const waiting = next(iterator);
    inbox.push(4);
    expect([taken, (await waiting).value]).toEqual([[1, 2, 3, 4], 4]);
    inbox.clear();
    expect(taken).toEqual([1, 2, 3, 4]);
  });
});
