import { describe, expect, it } from 'vitest';
import { body, DurablePair as Pair } from '../../testing/durable-pair.js';
import { errorCode } from '../../testing/error-code.js';

describe('the size of a record', () => {
  /** The bytes that a body takes beside its text. */
  const HEAD = 9;
  const limited = (maxRecordSize: number) => new Pair(true, true, { maxRecordSize }).run().record();
  const sent = (pair: Pair, size: number) =>
    errorCode(() => pair.server.channel.send(body('x'.repeat(size))));

  it('is bounded by what is said and not acknowledged', () => {
    const pair = limited(200 + 2 * HEAD);
    expect([sent(pair, 100), sent(pair, 100), sent(pair, 0)]).toEqual(['none', 'none', 'over_budget']);
    pair.record().later(1_000);
    expect([sent(pair, 200), sent(pair, 0)]).toEqual(['none', 'none']);
    expect(sent(pair, 1)).toBe('over_budget');
    expect(
      pair
        .record()
        .commits.flatMap(({ messages }) => messages)
        .map(({ number }) => number),
    ).toEqual([1, 2, 3, 4]);
  });

  it('is bounded by the parts of replies until these are over', () => {
    const pair = limited(100 + 2 * HEAD);
    pair.client.channel.request(body('ask'));
    pair.run().record();
    const part = (size: number) => errorCode(() => pair.server.channel.chunk(1, body('x'.repeat(size))));
    expect([part(50), part(50), part(0)]).toEqual(['none', 'none', 'over_budget']);
    pair.record().later(1_000);
    expect(part(0)).toBe('over_budget');
    pair.server.channel.end(1);
    pair.record().later(1_000);
    expect(sent(pair, 100)).toBe('none');
  });

  it('is bounded by the state', () => {
    const pair = limited(100);
    const stated = (size: number) => errorCode(() => pair.server.record?.setState(new Uint8Array(size)));
    expect([stated(100), stated(101), stated(100), stated(50)]).toEqual([
      'none',
      'over_budget',
      'none',
      'none',
    ]);
    expect([sent(pair, 50 - HEAD), sent(pair, 0)]).toEqual(['none', 'over_budget']);
    expect([stated(51), pair.server.record?.state?.length]).toEqual(['over_budget', 50]);
  });

  it('bounds a commit as a whole, so that all of it happens or nothing', () => {
    const pair = limited(100 + 2 * HEAD);
    pair.client.channel.send(body('one'));
    pair.run();
    const commit = (state: number, ...sizes: readonly number[]) =>
      errorCode(() => {
        const bodies = sizes.map((size) => body('x'.repeat(size)));
        pair.server.record?.commit(1, new Uint8Array(state), bodies);
      });
    const handled = () => pair.server.record?.handled;
    expect([commit(50, 25, 26), handled(), pair.server.record?.state]).toEqual(['over_budget', 0, undefined]);
    expect(pair.server.channel.hasUntold).toBe(false);
    expect([commit(50, 25, 25), handled(), pair.server.record?.state?.length]).toEqual(['none', 1, 50]);
    const before = pair.commits.length;
    pair.record();
    expect(pair.commits.slice(before)).toMatchObject([
      { handled: 1, messages: [{ number: 1 }, { number: 2 }] },
    ]);
    expect(pair.commits.at(-1)?.state?.length).toBe(50);
    expect([sent(pair, 0), commit(50)]).toEqual(['over_budget', 'none']);
  });

  it('is that of the process before', () => {
    const pair = limited(100 + HEAD);
    pair.client.handleDisconnected(1006, '', 0);
    expect(sent(pair, 90)).toBe('none');
    pair.record();
    const next = pair.takeOver();
    expect(errorCode(() => next.channel.send(body('x'.repeat(10))))).toBe('over_budget');
    expect(errorCode(() => next.channel.send(body('')))).toBe('none');
  });
});
