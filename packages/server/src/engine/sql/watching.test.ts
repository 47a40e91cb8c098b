import { expect, it } from 'vitest';
import type { ReplyChanges } from '../logs/logs.js';
import { watchReply } from './watching.js';

it('a hint that is not a number says that something has changed, and stops no later one', async () => {
  const records: Uint8Array[] = [];
  let wake = (_hint: string | undefined): void => {};
  const news: ReplyChanges[] = [];
  const stop = watchReply(
    {
      state: async () => ({ parts: records.length }) as never,
      read: async (after) => ({ records: records.slice(after), metadata: undefined, end: undefined }),
      hear(onWake) {
        wake = onWake;
        return () => {};
      },
    },
    (each) => void news.push(each),
  );
  wake(undefined);
  await expect.poll(() => news.splice(0)).toEqual(['unknown']);
  for (const hint of ['parts', 'null', '1.5', '-1', 'Infinity', '']) {
    wake(hint);
    await expect.poll(() => news.splice(0), { message: hint }).toEqual(['unknown']);
    records.push(Uint8Array.of(records.length));
    wake(String(records.length));
    await expect
      .poll(() => news.splice(0), { message: hint })
      .toEqual([{ from: records.length - 1, records: records.slice(-1) }]);
  }
  stop();
});
