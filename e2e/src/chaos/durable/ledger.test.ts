import { expect, it } from 'vitest';
import type { DatedEffect } from './effects.js';
import { DurableLedger } from './ledger.js';

const FATES = { killedPids: new Set<number>(), deaths: [], deadlines: new Map<number, number>() };

it('lets a reply be interrupted by a node that says that it was cut off, and not by another one', () => {
  const judged = (...effects: (DatedEffect['effect'] | undefined)[]): readonly string[] => {
    const ledger = new DurableLedger();
    ledger.opened('ann', 'sess_ann');
    const question = ledger.ask('ann', 3);
    const began: DatedEffect = { at: 1, pid: 1, effect: ['start', question, 1, 0] };
    ledger.failed(question, 'interrupted');
    const lost = effects.map((effect, i) => effect && { at: 2, pid: i + 1, effect });
    return ledger.examine([began, ...lost.filter((each) => each !== undefined)], FATES);
  };
  const fault = expect.stringContaining('although its handler lived');

  expect(judged(['cut off'])).toEqual([]);
  expect(judged(undefined, ['cut off'])).toEqual([fault]);
  expect(judged(['fenced', 'sess_ann'])).toEqual([]);
  expect(judged(['fenced', 'sess_bob'])).toEqual([fault]);
  expect(judged()).toEqual([fault]);
});
