import { describe, expect, it } from 'vitest';
import { partsIn, takeParts } from './handler-reply.js';

type Step = IteratorResult<string, string | undefined> | Error;

/** An iterator that does these steps, and writes down when it is asked to return. */
function createParts(steps: readonly Step[], returnError?: Error) {
  const calls: string[] = [];
  let at = 0;
  const iterator: AsyncIterator<string, string | undefined> = {
    async next() {
      calls.push('next');
      const step = steps[at++] ?? { done: true, value: undefined };
      if (step instanceof Error) throw step;
      return step;
    },
    async return() {
      calls.push('return');
      if (returnError !== undefined) throw returnError;
      return { done: true, value: undefined };
    },
  };
  return { calls, parts: { [Symbol.asyncIterator]: () => iterator } };
}

const part = (value: string): Step => ({ done: false, value });

describe('the parts of a reply', () => {
  it('are taken one after the other, the returned one last', async () => {
    const { calls, parts } = createParts([part('a'), part('b'), { done: true, value: 'c' }]);
    const taken: string[] = [];
    let isBusy = false;
    await takeParts(parts, async (each) => {
      expect(isBusy).toBe(false);
      isBusy = true;
      await Promise.resolve();
      isBusy = false;
      taken.push(each);
    });
    expect(taken).toEqual(['a', 'b', 'c']);
    expect(calls).toEqual(['next', 'next', 'next']);
  });

  it('of a plain generator are the same', async () => {
    const taken: string[] = [];
    const reply = (function* () {
      yield 'a';
      return 'b';
    })();
    const parts = partsIn<string>(reply);
    if (parts === undefined) throw new Error('it has several parts');
    await takeParts(parts, (each) => void taken.push(each));
    expect(taken).toEqual(['a', 'b']);
    expect(partsIn('a')).toBeUndefined();
  });

  it('are left when no more are wanted', async () => {
    const { calls, parts } = createParts([part('a'), part('b')]);
    await takeParts(parts, () => false);
    expect(calls).toEqual(['next', 'return']);
  });

  it('are left with the error of one that cannot be sent, also if the iterator fails then', async () => {
    const { calls, parts } = createParts([part('a')], new Error('of return'));
    const refused = takeParts(parts, () => Promise.reject(new Error('of take')));
    await expect(refused).rejects.toThrow('of take');
    expect(calls).toEqual(['next', 'return']);
  });

  it('fail with what the iterator throws, which is then not asked to return', async () => {
    const { calls, parts } = createParts([part('a'), new Error('of next')]);
    await expect(takeParts(parts, () => undefined)).rejects.toThrow('of next');
    expect(calls).toEqual(['next', 'next']);
    const left = createParts([part('a')], new Error('of return'));
    await expect(takeParts(left.parts, () => false)).rejects.toThrow('of return');
  });
});
