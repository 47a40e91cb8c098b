import { describe, expect, it } from 'vitest';
import { MAX_PENDING, Pending } from './pending.js';

const event = (data: unknown) => ({ name: 'saved', id: 'a-1', data });

describe('events that are not acknowledged', () => {
  it('are what they were when another process reads them, oldest first', () => {
    const pending = new Pending();
    expect(pending.save()).toBeUndefined();
    pending.add('a-1', event({ id: 1 }));
    pending.add('a-2', event(undefined));
    pending.add('a-3', event(null));
    pending.delete('a-2');
    pending.delete('a-9');
    pending.add('a-4', event(undefined));
    expect(Pending.load(pending.save())).toEqual([
      { id: 'a-1', name: 'saved', data: { id: 1 } },
      { id: 'a-3', name: 'saved', data: null },
      { id: 'a-4', name: 'saved', data: undefined },
    ]);
  });

  it('have a bound, which those that are acknowledged leave', () => {
    const pending = new Pending();
    // With the quotes, and in bytes.
    pending.add('a-1', event('x'.repeat(MAX_PENDING - 6)));
    pending.add('a-2', event('é'));
    expect(() => pending.add('a-3', event(1))).toThrow(expect.objectContaining({ code: 'over_budget' }));
    pending.delete('a-2');
    pending.add('a-3', event(1));
    expect(Pending.load(pending.save()).map(({ id }) => id)).toEqual(['a-1', 'a-3']);
  });

  it('leave what is not JSON to the request that refuses it', () => {
    const circular: unknown[] = [];
    circular.push(circular);
    const pending = new Pending();
    for (const [i, data] of [circular, 5n, () => {}].entries()) pending.add(`a-${i}`, event(data));
    expect(Pending.load(pending.save())).toHaveLength(3);
  });

  it.each([
    [undefined],
    ['text'],
    [[5]],
    [[['a-1', 'saved']]],
    [[['', 'saved', '1']]],
    [[['a-1', 'x'.repeat(65), '1']]],
    [[['a-1', 'saved', '{']]],
  ])('are refused if they are none: %#', (saved) => {
    expect(() => Pending.load(saved)).toThrow(expect.objectContaining({ code: 'bad_message' }));
  });
});
