import { expect, it } from 'vitest';
import { Cancellation } from './cancellation.js';

it('aborts its signal, whether that is looked at before or after', () => {
  const reason = new Error('enough');
  const before = new Cancellation();
  const { signal } = before;
  const heard: unknown[] = [];
  signal.addEventListener('abort', () => heard.push(signal.reason));
  const after = new Cancellation();
  for (const each of [before, after]) {
    expect([each.isAborted, each.reason]).toEqual([false, undefined]);
    each.abort(reason);
    each.abort(new Error('a second reason'));
    expect([each.isAborted, each.reason]).toEqual([true, reason]);
    expect([each.signal.aborted, each.signal.reason]).toEqual([true, reason]);
    expect(each.signal).toBe(each.signal);
  }
  expect(before.signal).toBe(signal);
  expect(heard).toEqual([reason]);
});
