import type { PoolClient } from 'pg';
import { expect, it } from 'vitest';
import { ask, type SqlCall } from '../sql/call.js';
import { isBroken } from './errors.js';
import { Transaction } from './transaction.js';

/** A transaction over a connection that fails as a test wants. */

const refused = Object.assign(new Error('duplicate key'), { code: '23505' });

/** @param fail what a statement fails with. */
function transactionThat(fail: (text: string) => Error | undefined) {
  const sent: string[] = [];
  const client = {
    async query(query: string | { readonly text: string }) {
      const text = typeof query === 'string' ? query : query.text;
      sent.push(text.split(' ')[0] as string);
      const error = fail(text);
      if (error !== undefined) throw error;
      return { rows: [] };
    },
  };
  return { sent, transaction: new Transaction(client as never as PoolClient, false) };
}

function* insert(): SqlCall<string> {
  yield* ask('INSERT INTO a VALUES (?)', 1);
  return 'done';
}

it('that cannot be rolled back ends with that, so that its connection is not used again', async () => {
  const lost = new Error('Connection terminated unexpectedly');
  const { sent, transaction } = transactionThat((text) =>
    text.startsWith('INSERT') ? refused : text === 'ROLLBACK' ? lost : undefined,
  );
  // The first error alone would say that the connection is as good as before.
  expect(isBroken(refused)).toBe(false);
  await expect(transaction.run(insert)).rejects.toBe(lost);
  expect(isBroken(lost)).toBe(true);
  expect(sent).toEqual(['BEGIN', 'INSERT', 'ROLLBACK']);
  expect(transaction.isDone).toBe(true);
});

it('that was rolled back begins again if another one was in the way, and ends with any other error', async () => {
  let attempts = 0;
  const again = transactionThat((text) =>
    text.startsWith('INSERT') && ++attempts === 1 ? refused : undefined,
  );
  expect(await again.transaction.run(insert)).toBe('done');
  expect(again.sent).toEqual(['BEGIN', 'INSERT', 'ROLLBACK', 'BEGIN', 'INSERT', 'COMMIT']);
  const wrong = Object.assign(new Error('no such column'), { code: '42703' });
  const ended = transactionThat((text) => (text.startsWith('INSERT') ? wrong : undefined));
  await expect(ended.transaction.run(insert)).rejects.toBe(wrong);
  expect(ended.sent).toEqual(['BEGIN', 'INSERT', 'ROLLBACK']);
});
