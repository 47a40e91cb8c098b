import { describe, expect, it } from 'vitest';
import { EventsOfSession } from './events.js';

describe('an event that comes again', () => {
  it('is handled once, also while it is being handled, and has the same end', async () => {
    const events = new EventsOfSession();
    const calls: string[] = [];
    let release = (): void => {};
    const handle = async () => {
      calls.push('begun');
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      calls.push('done');
      return '';
    };
    const [first, second] = [events.once('a-1', handle), events.once('a-1', handle)];
    expect(calls).toEqual(['begun']);
    release();
    expect(await Promise.all([first, second, events.once('a-1', handle)])).toEqual(['', '', '']);
    expect(calls).toEqual(['begun', 'done']);
    const fail = () => {
      calls.push('failed');
      throw new RangeError('no');
    };
    for (let i = 0; i < 2; i++) await expect(events.once('a-2', fail)).rejects.toThrow('no');
    expect(calls.slice(2)).toEqual(['failed']);
  });

  it('is known among the last 256', () => {
    const events = new EventsOfSession();
    const handled: number[] = [];
    const emit = (i: number) => events.once(`a-${i}`, () => void handled.push(i));
    for (let i = 0; i < 256; i++) emit(i);
    emit(0);
    expect(handled).toHaveLength(256);
    emit(256);
    emit(1);
    expect(handled).toHaveLength(257);
    emit(0);
    expect(handled.slice(256)).toEqual([256, 0]);
  });
});

describe('a handler', () => {
  it('that is added twice is called twice, and removed by itself', () => {
    const events = new EventsOfSession();
    const handler = () => {};
    const [stop, stopOther] = [events.add('ping', handler), events.add('ping', handler)];
    expect([...events.handlersOf('ping')]).toHaveLength(2);
    stop();
    stop();
    expect([...events.handlersOf('ping')]).toHaveLength(1);
    stopOther();
    expect([...events.handlersOf('ping'), ...events.handlersOf('pong')]).toEqual([]);
  });
});
