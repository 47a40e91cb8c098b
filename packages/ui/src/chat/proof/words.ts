import { count, duration, number } from '../../shared/format.js';
import type { Turn } from '../conversation.js';
import { isWhole } from '../endings.js';
import { type Reading, type Verdict, verdictOf } from './reading.js';

/** The line below an answer about its pieces, which states only what was compared. Empty while it is being received. */
export function proofOf(turn: Turn): { readonly verdict: Verdict | undefined; readonly text: string } {
  const verdict = verdictOf(turn.reading);
  return { verdict, text: verdict === undefined ? '' : textOf(verdict, turn) };
}

function textOf(verdict: Verdict, turn: Turn): string {
  const { chunks, of } = countsOf(turn.reading);
  switch (verdict) {
    case 'whole':
      return `✓ ${isWhole(turn) ? 'Complete' : 'Nothing lost'}: ${number(chunks)} of ${count(of, 'piece')}, each once`;
    case 'missing':
      return `✗ Not complete: ${count(of - chunks, 'piece')} of ${number(of)} missing`;
    case 'twice':
      return `✗ ${count(chunks, 'piece')}, but ${number(of)} were written`;
    case 'changed':
      return `✗ ${count(chunks, 'piece')}, not as they were written`;
    case 'unknown':
      return `${count(chunks, 'piece')}, not checked`;
  }
}

/** How many came, and of how many. */
export function countsOf({ end, written }: Reading): { readonly chunks: number; readonly of: number } {
  const chunks = end?.chunks ?? 0;
  return { chunks, of: written?.chunks ?? chunks };
}

/** The verdict on all answers of a chat; `undefined` before the first of them has ended. */
export function lostIn(
  readings: readonly Reading[],
): { readonly title: string; readonly headline: string; readonly told: string } | undefined {
  const ended = readings.filter(({ end }) => end !== undefined);
  if (ended.length === 0) return undefined;
  const verdicts = ended.map(verdictOf);
  const bad = verdicts.filter((verdict) => verdict !== 'whole' && verdict !== 'unknown').length;
  const checked = ended.filter((_reading, i) => verdicts[i] !== 'unknown').map(countsOf);
  const [here, there] = [checked.map(({ chunks }) => chunks), checked.map(({ of }) => of)].map(sum) as [
    number,
    number,
  ];
  const breaks = readings.flatMap((reading) => reading.breaks);
  const away = sum(breaks.map(({ from, to }) => to - from));
  const unchecked = ended.length - checked.length;
  return {
    title: bad > 0 ? 'Not as it was written' : checked.length === 0 ? 'Not checked' : 'Nothing lost',
    headline: checked.length === 0 ? '' : `${number(here)} of ${count(there, 'piece')}`,
    told: [
      `In this chat: ${breaks.length === 0 ? 'no break' : `${count(breaks.length, 'break')}, ${duration(away)} away`}`,
      ...(bad === 0 ? [] : [`${count(bad, 'answer')} not as written`]),
      ...(bad === 0 && checked.length > 0 ? ['no piece missing, changed or twice'] : []),
      ...(unchecked === 0 ? [] : [`${count(unchecked, 'answer')} not checked`]),
    ]
      .join('; ')
      .concat('.'),
  };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
