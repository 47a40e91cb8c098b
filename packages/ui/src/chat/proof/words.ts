import { count, number } from '../../shared/format.js';
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
