import { describe, expect, it } from 'vitest';
import { MAX_SENDERS, ReceivedMarks } from './received-marks.js';

const first = (number: number) => ({ number, isAgain: false });
const again = (number: number) => ({ number, isAgain: true });

describe('what a session has heard', () => {
  it('is known up to the last number of each sender', () => {
    const heard = new ReceivedMarks();
    heard.add('a', first(3));
    heard.add('b', first(1));
    expect([2, 3, 4].map((number) => heard.check('a', again(number)))).toEqual(['known', 'known', 'new']);
    expect(heard.check('b', first(2))).toBe('new');
  });

  it('is not known of a sender that is not, which matters for what comes again', () => {
    const heard = new ReceivedMarks();
    expect([heard.check('a', first(1)), heard.check('a', again(1))]).toEqual(['new', 'unsure']);
    heard.add('a', first(1));
    heard.forget('a');
    expect(heard.check('a', again(1))).toBe('unsure');
  });

  it('is unsure of all that comes again from a sender that was not known, until something new comes', () => {
    const heard = new ReceivedMarks();
    const heardNow = (place: ReturnType<typeof first>) => {
      const verdict = heard.check('a', place);
      if (verdict !== 'known') heard.add('a', place);
      return verdict;
    };
    expect([again(2), again(2), again(3)].map(heardNow)).toEqual(['unsure', 'known', 'unsure']);
    const other = new ReceivedMarks();
    other.restore(heard.entries);
    expect(other.check('a', again(4))).toBe('unsure');
    expect([first(4), again(4), again(5)].map(heardNow)).toEqual(['new', 'known', 'new']);
  });

  it(`is remembered of ${MAX_SENDERS} senders, those that were heard last`, () => {
    const heard = new ReceivedMarks();
    const changes: [string, number][] = [];
    const note = (sender: string, number: number) => void changes.push([sender, number]);
    for (let i = 0; i < MAX_SENDERS; i++) heard.add(`s${i}`, first(1));
    heard.add('s0', first(2), note);
    expect([heard.entries.length, changes]).toEqual([MAX_SENDERS, [['s0', 4]]]);
    heard.add('more', first(1), note);
    expect(heard.entries.length).toBe(MAX_SENDERS);
    expect(changes.slice(1)).toEqual([
      ['more', 2],
      ['s1', 0],
    ]);
    expect([heard.check('s0', again(2)), heard.check('s1', again(1))]).toEqual(['known', 'unsure']);
  });

  it('is the same when it was restored', () => {
    const [heard, other] = [new ReceivedMarks(), new ReceivedMarks()];
    heard.add('a', first(3));
    heard.add('b', first(1));
    other.restore(heard.entries);
    expect(other.entries).toEqual([
      ['a', 6],
      ['b', 2],
    ]);
  });
});
