import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { unlessAborted, whenAborted } from './when-aborted.js';

describe('calls that share a signal', () => {
  it('have one listener, while there is a call', () => {
    const { signal } = new AbortController();
    const free = [1, 2, 3].map(() => whenAborted(signal, () => {}));
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    for (const each of [...free, ...free]) each();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    whenAborted(signal, () => {});
    // A call that was ended before does not end this one.
    for (const each of free) each();
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  });

  it('are called once and in order, but for those that end meanwhile', () => {
    const abort = new AbortController();
    const called: string[] = [];
    const call = () => void called.push('same');
    whenAborted(abort.signal, call);
    whenAborted(abort.signal, call);
    whenAborted(abort.signal, () => {
      called.push('ends the next');
      free();
    });
    const free = whenAborted(abort.signal, () => void called.push('never'));
    abort.abort();
    expect(called).toEqual(['same', 'same', 'ends the next']);
    expect(getEventListeners(abort.signal, 'abort')).toEqual([]);
  });

  it('are not called without a signal, nor by one that has aborted', () => {
    let calls = 0;
    whenAborted(undefined, () => calls++)();
    whenAborted(AbortSignal.abort(), () => calls++)();
    expect(calls).toBe(0);
  });
});

describe('a value that is waited for', () => {
  it('wins, and leaves no listener', async () => {
    const { signal } = new AbortController();
    expect(await unlessAborted(Promise.resolve(1), signal)).toBe(1);
    await expect(unlessAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('loses against the signal, also if that has aborted before or the value is none of this runtime', async () => {
    const abort = new AbortController();
    const waiting = unlessAborted(new Promise(() => {}), abort.signal);
    abort.abort(new Error('left'));
    await expect(waiting).rejects.toThrow('left');
    await expect(unlessAborted(Promise.resolve(1), abort.signal)).rejects.toThrow('left');
    await expect(unlessAborted(Promise.reject(new Error('no')), abort.signal)).rejects.toThrow('left');
  });
});
