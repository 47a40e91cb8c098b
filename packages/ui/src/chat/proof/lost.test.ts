import { describe, expect, it } from 'vitest';
import { createTurn, type Turn } from '../conversation.js';
import { lostIn } from './lost.js';
import { NO_READING, type Reading } from './reading.js';

const SUM = 'a'.repeat(64);
const LOST = { what: 'connection lost', from: 1_000, to: 3_000, caught: 2 };

function turn(changes: Partial<Turn>, reading: Partial<Reading> = {}): Turn {
  return { ...createTurn('Why?'), reply: undefined, ...changes, reading: { ...NO_READING, ...reading } };
}

/** An answer of so many pieces, all of which the server has written. */
function whole(chunks: number, reading: Partial<Reading> = {}): Turn {
  const end = { name: 'chat-1', chunks, sha256: SUM };
  return turn({ state: 'done' }, { end, written: { chunks, sha256: SUM, ms: undefined }, ...reading });
}

/** With plain blanks. */
function said(...turns: Turn[]) {
  const lost = lostIn(turns);
  return lost && Object.values(lost).map((text) => text.replaceAll('\u00a0', ' '));
}

describe('what the panel says of the pieces of a chat', () => {
  it('is nothing before the first question', () => {
    expect(said()).toBeUndefined();
  });

  it('names each kind of break, and how often it was', () => {
    const frozen = { ...LOST, what: 'connection frozen', to: 11_000 };
    expect(said(whole(3, { breaks: [LOST, frozen, LOST] }), whole(4))).toEqual([
      'Nothing lost',
      '7 of 7 pieces',
      'In this chat: connection lost 2 times (4.0 s); connection frozen once (10 s); no piece missing, changed or twice.',
    ]);
  });

  it('counts an answer that was cut short in a version that is not shown, with its break', () => {
    const broken = turn({ state: 'interrupted', answer: 'Half' }, { breaks: [LOST] });
    const told = 'In this chat: connection lost once (2.0 s); 1 answer cut short';
    expect(said(broken)).toEqual(['1 answer cut short', '', `${told}.`]);
    expect(said(broken, whole(4))).toEqual([
      '1 answer cut short',
      '4 of 4 pieces',
      `${told}, asked again; no piece of the others missing, changed or twice.`,
    ]);
    const other = turn({ state: 'failed', answer: 'Half', question: 'And?' });
    expect(said(broken, other, whole(4))?.[2]).toContain('2 answers cut short, 1 asked again');
    // Nothing of it has come.
    expect(said(turn({ state: 'failed' }))).toBeUndefined();
  });

  it('does not say that nothing is lost of an answer that was not compared', () => {
    const told = 'In this chat: no break in mid-answer; 1 answer';
    const stopped = turn({ state: 'stopped', answer: 'Half' });
    expect(said(stopped)).toEqual(['Not checked', '', `${told} stopped.`]);
    const rest = 'no piece of the others missing, changed or twice.';
    expect(said(whole(4), stopped)).toEqual([
      'Nothing lost in 1 of 2 answers',
      '4 of 4 pieces',
      `${told} stopped; ${rest}`,
    ]);
    expect(said(whole(4), turn({ state: 'elsewhere' }))?.[2]).toBe(
      `${told} received by another tab; ${rest}`,
    );
    const unknown = whole(3, { written: undefined });
    expect(said(whole(4), unknown)).toEqual([
      'Nothing lost in 1 of 2 answers',
      '4 of 4 pieces',
      `${told} not checked; ${rest}`,
    ]);
  });

  it('counts a break that is not over', () => {
    const open = { ...LOST, isOpen: true };
    const running = (breaks: Reading['breaks']) => said(turn({ state: 'streaming' }, { breaks }))?.[2];
    expect(running([open])).toMatch(/In this chat: connection lost once \(2\.0 s so far\)\.$/);
    expect(running([LOST, open])).toMatch(/: connection lost 2 times \(4\.0 s so far\)\.$/);
  });

  it('does not take an answer for whole whose rest may still come', () => {
    const reply = { name: 'chat-1', position: 2, sum: undefined };
    expect(said(whole(4), turn({ state: 'interrupted', reply }))?.[0]).toBe('Not complete yet');
  });

  it('is of the answer that is being received, and of none as long as the server is being asked', () => {
    const reply = { name: 'chat-1', position: 2, sum: undefined };
    const before =
      'Before it: 4 of 4 pieces. In this chat: no break in mid-answer; no piece missing, changed or twice.';
    const asked = 'At its end, the server is asked how many it has written.';
    expect(said(whole(4), turn({ state: 'streaming', reply }))).toEqual([
      'This answer',
      '2 pieces so far',
      `${asked} ${before}`,
    ]);
    const end = { name: 'chat-1', chunks: 9, sha256: SUM };
    expect(said(whole(4), turn({ state: 'done' }, { end, isAsked: true }))).toEqual([
      'This answer',
      '9 pieces so far',
      `${asked} ${before}`,
    ]);
    expect(said(turn({ state: 'done' }, { end }))).toEqual([
      'Not checked',
      '',
      'In this chat: no break in mid-answer; 1 answer not checked.',
    ]);
  });
});
